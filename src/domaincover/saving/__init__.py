"""Models as folders of data: safetensors, JSON and skops, never pickle."""
