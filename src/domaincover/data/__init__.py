"""Datasets of several domains: reading, encoding and splitting."""
