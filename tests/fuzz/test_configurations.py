"""Experiments from TOML files of any content: studies that can be planned, or one line."""

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domaincover.paper.experiment import OWN_KEYS, STUDY_KEYS, read_experiment
from domaincover.paper.study_datasets import Sizes
from tests.fuzz.answers import answer, is_refused
from tests.fuzz.damage import few

numbers = st.one_of(
    st.integers(-3, 20),
    st.sampled_from([10**9 + 1, 10**12, 10**30, -(10**20)]),
    st.floats(),
    st.sampled_from(["nan", "inf", "-inf", "1e999", "0x7f", "1979-05-27", "07:32:00", "true", "9" * 5000]),
)
texts = st.sampled_from(
    [
        '"synthetic-10"',
        '"erm"',
        '"set-cover"',
        '"all"',
        '"paper"',
        '"theory"',
        '"times"',
        '"../../x"',
        '""',
        '"a\\u0000b"',
    ]
)
plain = st.one_of(numbers.map(str), texts)
values = st.one_of(plain, st.lists(plain, max_size=3).map(lambda items: f"[{', '.join(items)}]"), st.just("{a = 1}"))
keys = st.sampled_from([*OWN_KEYS, *STUDY_KEYS, *Sizes._fields, "sedes", "a.b", '""'])
configurations = st.dictionaries(keys, values, max_size=6).map(
    lambda found: "\n".join(f"{key} = {value}" for key, value in ({"datasets": '["synthetic-10"]'} | found).items())
)


def planned(path):
    experiment = read_experiment(path)
    if experiment.kind == "theory":
        return [experiment]
    return [run for study in experiment.studies({}, False, str) for run in islice(study.runs(), 3)]


@few(40)
@given(text=configurations)
def test_any_settings_give_a_plan_or_one_line(tmp_path, text, door):
    door("configurations")
    (tmp_path / "e.toml").write_text(text)
    answer(planned, tmp_path / "e.toml")


@few(40)
@given(content=st.binary(max_size=60) | st.text(st.characters(codec="utf-8"), max_size=60).map(str.encode))
def test_any_bytes_give_a_plan_or_one_line(tmp_path, content, door):
    door("configurations")
    (tmp_path / "e.toml").write_bytes(content)
    assert is_refused(answer(planned, tmp_path / "e.toml"))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("a = " + "[" * 100_000, "or lists nested too deeply"),
        ("a = " + "{b=" * 20_000, "or lists nested too deeply"),
        ("seeds = " + "9" * 5_000, "thousands of digits"),
        (f"seeds = {10**12}", "seeds must be from 1 to 10000"),
        (f"epochs = {10**30}", "epochs must be at most"),
        ("learning_rate = inf", "learning_rate must be above 0 and finite"),
        ("\n".join(f"{key} = {10**8}" for key in Sizes._fields), "domains times rows must be at most"),
        ("methods = " + repr(list(range(1000))), "methods must be a list of strings, got"),
    ],
)
def test_what_would_never_end_is_refused_at_once(tmp_path, line, told, door):
    door("configurations")
    (tmp_path / "e.toml").write_text(f'datasets = ["synthetic-10"]\n{line}\n')
    refusal = answer(planned, tmp_path / "e.toml")
    assert is_refused(refusal)
    assert told in str(refusal)
    assert len(str(refusal)) < 400


def test_a_folder_is_no_configuration(tmp_path):
    assert is_refused(answer(read_experiment, tmp_path))
