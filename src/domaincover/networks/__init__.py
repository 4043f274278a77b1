"""Networks that map examples to one score per label."""
