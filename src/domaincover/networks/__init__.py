"""From examples to one score per label."""
