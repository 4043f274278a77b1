"""From a study to run directories."""
