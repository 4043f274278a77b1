"""Whether this is a deep run, `make test-all`, and not the run of every day, `make test`."""

import os

import pytest

IS_DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"


def deep(*values):
    """Return parameters of which only the deep tests run."""
    return [pytest.param(value, marks=pytest.mark.deep) for value in values]
