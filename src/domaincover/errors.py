"""What a user can fix."""


class InputError(ValueError):
    """Bad input: the message names what was wrong, where, and what to do, in one line."""
