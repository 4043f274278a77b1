"""Thresholds from scores: one per label, whatever the rule."""
