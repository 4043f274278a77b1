"""Speed and memory, each as a ratio against something run in the same process: `make benchmarks`."""
