"""Models of tables as files that other runtimes read."""
