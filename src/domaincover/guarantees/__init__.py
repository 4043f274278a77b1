"""What can be promised about new domains, and the theory behind it."""
