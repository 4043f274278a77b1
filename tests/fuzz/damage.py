"""Ways in which bytes and plain data go wrong."""

import copy
import json

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.deep import IS_DEEP


def few(n_cases):
    """Return hypothesis settings for so many examples, or for all of a deep campaign."""
    deep = {} if IS_DEEP else {"max_examples": n_cases}
    return settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], **deep)


odd_values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([10**12, 10**30, -(10**400), float("nan"), float("inf"), -1.5, 1e308]),
    st.text(st.characters(codec="utf-8"), max_size=5),
    st.sampled_from(["", "../../x", "<script>alert(1)</script>", "=1+1", "\\input{/etc/passwd}", "{{7*7}}", "\0"]),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
)


def positions(content, n_cases):
    """Return places in bytes: all of them in a deep campaign, else some that are spread evenly."""
    step = 1 if IS_DEEP else max(1, len(content) // n_cases)
    return range(0, len(content), step)


def flipped(content, position, bit=0):
    return content[:position] + bytes([content[position] ^ (1 << bit)]) + content[position + 1 :]


def places_in(value, path=()):
    """Yield the path to every value within plain data."""
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from places_in(child, (*path, key))


@st.composite
def spoiled(draw, value):
    """Return a copy of plain data in which one value, somewhere, is another, or is gone."""
    path = draw(st.sampled_from(list(places_in(value))[1:]))
    changed = copy.deepcopy(value)
    place = changed
    for key in path[:-1]:
        place = place[key]
    if draw(st.booleans()) and isinstance(place, dict):
        del place[path[-1]]
    else:
        place[path[-1]] = draw(odd_values)
    return changed


def as_json(value):
    return json.dumps(value).encode()
