"""Objectives, batches and the training loop."""
