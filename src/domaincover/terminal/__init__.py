"""What all commands share: messages, completion, and options that are declared as a dataclass."""
