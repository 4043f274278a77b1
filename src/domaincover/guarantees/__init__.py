"""What can be promised about new domains."""
