"""Shared by all commands: messages, completion, and options declared as a dataclass."""
