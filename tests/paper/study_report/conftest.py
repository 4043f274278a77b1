"""Made-up results, and a hostile variant whose names try to run as code."""

import numpy as np
import pandas as pd
import pytest

from .made_up import HOSTILE, random_domains, results_of


@pytest.fixture(scope="session")
def domains() -> pd.DataFrame:
    return random_domains(np.random.default_rng(0))


@pytest.fixture(scope="session")
def results(domains: pd.DataFrame) -> pd.DataFrame:
    return results_of(domains)


@pytest.fixture(scope="session")
def hostile_domains() -> pd.DataFrame:
    return random_domains(
        np.random.default_rng(1),
        datasets=(f"={HOSTILE}", f"+{HOSTILE}", "synthetic-50"),
        methods={"set-cover": (0.94, 1.2), f"@{HOSTILE}": (0.93, 1.3)},
        labels=(HOSTILE, "plain"),
        n_domains=3,
        domain_name=HOSTILE,
    )


@pytest.fixture(scope="session")
def hostile_results(hostile_domains: pd.DataFrame) -> pd.DataFrame:
    return results_of(hostile_domains)
