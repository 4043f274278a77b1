"""Calibration data of a few rows, in which everything awkward is common."""

import warnings

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

N_LABELS, N_DOMAINS = 3, 4
TARGETS = st.sampled_from([0.05, 0.5, 0.7, 0.8, 0.9, 0.95, 0.999]) | st.floats(0.01, 0.99)
DECIMALS = st.integers(1, 99).map(lambda percent: percent / 100)  # what a user types, so that fractions are exact
FINITE = (-2.5, -1.0, 0.0, 0.5, 0.75, 3.0)


@st.composite
def calibration_data(draw, n_domains=N_DOMAINS, values=FINITE):
    """Few distinct scores, so that ties are common; labels may be absent, and so may domains."""
    n = draw(st.integers(1, 60))
    scores = draw(hnp.arrays(np.float32, (n, N_LABELS), elements=st.sampled_from(values)))
    labels = draw(hnp.arrays(np.int64, n, elements=st.integers(0, N_LABELS - 1)))
    domains = draw(hnp.arrays(np.int64, n, elements=st.integers(0, n_domains - 1)))
    return scores, labels, domains


def awkward_data():
    """Return up to twelve domains, so that a confidence of 0.9 is now and then possible, and infinite scores."""
    return calibration_data(n_domains=12, values=(-np.inf, *FINITE, np.inf))


def quietly(rule, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # absent labels are common here and have tests of their own
        return rule(*args, **options)


def one_row_cells(n_domains_with):
    """Return data in which label k is in the first n_domains_with[k] domains, with one row of score 0 in each."""
    domains = np.concatenate([np.arange(n) for n in n_domains_with])
    labels = np.repeat(np.arange(len(n_domains_with)), n_domains_with)
    return np.zeros((len(labels), len(n_domains_with))), labels, domains
