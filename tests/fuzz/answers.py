"""The two answers that a door may give: a right one, or one clear line."""

import contextlib
import warnings

from domaincover import InputError


@contextlib.contextmanager
def no_numpy_noise():
    """Let what numpy and pandas only warn of fail; what we say to the user is a UserWarning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("error", FutureWarning)
        yield


def answer(work, *arguments, **options):
    """Return what a function returns, or the one line with which it refuses; everything else is a fault."""
    with no_numpy_noise():
        try:
            return work(*arguments, **options)
        except InputError as refused:
            line = str(refused)
            assert line.strip()
            assert "\n" not in line
            return refused


def is_refused(result):
    return isinstance(result, InputError)
