"""The walks of docs/how-it-flows.md against the code: every hop exists, and a run reaches them in that order."""

import importlib
import inspect
import re
import sys
from functools import cache, reduce
from pathlib import Path

import numpy as np
import pytest

import domaincover
from domaincover import GaussianDomains, PromisedSetClassifier, SetCoverClassifier
from tests.documents import DOCS

HOME = str(Path(domaincover.__file__).parent)
DATA = GaussianDomains.of_paper(4).sample(12, 60, np.random.default_rng(0))
ROWS = DATA.examples, DATA.labels
NETWORK = SetCoverClassifier(epochs=2, random_state=0)


@cache
def promised():
    return PromisedSetClassifier(NETWORK, random_state=0).fit(*ROWS, domains=DATA.domains)


WALKS = {
    "`SetCoverClassifier(…).fit(X, y, domains=…)`": lambda: NETWORK.fit(*ROWS, domains=DATA.domains),
    "`PromisedSetClassifier(…).fit(X, y, domains=…)`": promised.__wrapped__,
    "`predict_set(X, domains=…)`": lambda: promised().predict_set(DATA.examples, domains=DATA.domains),
}
MOST_HOPS = dict(zip(WALKS, (14, 12, 10), strict=True))


def hops_of(walk):
    """Return the functions that the page lists, in order."""
    text = (DOCS / "how-it-flows.md").read_text(encoding="utf-8").split(f"\n{walk}")[1].split("```")[1]
    lines = re.findall(r"^ *(\d+)  (\S+) +(\S+) ", text, re.MULTILINE)
    assert [int(number) for number, *_ in lines] == list(range(1, len(lines) + 1))
    modules = [(importlib.import_module(f"domaincover.{module}"), name) for _, module, name in lines]
    return [inspect.unwrap(reduce(getattr, name.split("."), module)) for module, name in modules]


def calls_of(run):
    """Return the calls of functions of ours in a run, in order: the code that is called, and what called it."""
    calls = []

    def is_a_function_of_ours(frame):
        return frame.f_code.co_filename.startswith(HOME) and not frame.f_code.co_name.startswith("<")

    def note(frame, event, _):
        if event != "call" or not is_a_function_of_ours(frame):
            return
        caller = frame.f_back
        while caller is not None and not is_a_function_of_ours(caller):
            caller = caller.f_back
        calls.append((frame.f_code, None if caller is None else caller.f_code))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize("walk", WALKS)
def test_a_run_reaches_the_hops_of_a_walk_in_order_each_from_one_above_it(walk):
    promised()
    hops = [hop.__code__ for hop in hops_of(walk)]
    calls = calls_of(WALKS[walk])
    called = [code for code, _ in calls]
    missed = [hop.co_qualname for hop in hops if hop not in called]
    assert missed == []
    first = [called.index(hop) for hop in hops]
    assert first == sorted(first)
    alone = [
        hop.co_qualname
        for place, hop in enumerate(hops[1:], start=1)
        if not any(code is hop and caller in hops[:place] for code, caller in calls)
    ]
    assert alone == []


@pytest.mark.parametrize("walk", WALKS)
def test_a_walk_is_short(walk):
    assert 5 < len(hops_of(walk)) <= MOST_HOPS[walk]
