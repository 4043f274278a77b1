"""Labels and domains of every hashable kind: they come back as they were given, or are refused in one line."""

import datetime as dt
import decimal
import enum

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from domaincover import ConformalSetClassifier, ERMClassifier, InputError, load, save, to_label_lists
from domaincover.data.dataset import code_names
from domaincover.predictors.set_predictor import label_codes
from tests.fuzz.answers import answer, is_refused
from tests.fuzz.damage import few


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


N_ROWS = 12
HALF = N_ROWS // 2
X = np.random.default_rng(0).normal(size=(N_ROWS, 2))
texts = st.text(st.characters(codec="utf-8"), max_size=4)
names = st.one_of(
    texts,
    st.integers(),
    st.integers(-(2**65), 2**65),
    st.booleans(),
    st.floats(allow_nan=False),
    st.binary(max_size=3),
    st.dates(),
    st.datetimes(),
    st.tuples(st.integers(), texts),
    st.decimals(allow_nan=False),
    st.frozensets(st.integers(), max_size=2),
)


def in_rows(*values):
    return [values[row % len(values)] for row in range(N_ROWS)]


@few(60)
@given(st.lists(names, min_size=1, max_size=6))
def test_codes_lead_back_to_the_names_that_were_given(door, given_names):
    door("names")
    rows = in_rows(*given_names)
    coded = answer(code_names, rows, "domains", N_ROWS)
    if not is_refused(coded):
        back = [coded.names[code] for code in coded.codes]
        assert back == rows
        assert len(coded.names) == len(set(rows))


@few(60)
@given(st.lists(names, min_size=1, max_size=4, unique_by=lambda name: (type(name), name)))
def test_labels_are_found_among_the_classes_that_were_learned(door, given_names):
    door("names")
    rows = in_rows(*given_names)
    model = ERMClassifier()
    targets = answer(model._learn_targets, rows, None, N_ROWS)
    if not is_refused(targets):
        assert label_codes(rows, model.classes_).tolist() == targets.labels.tolist()
        assert [model.classes_[code] for code in targets.labels] == rows


@pytest.mark.parametrize("what", ["labels", "domains"])
@pytest.mark.parametrize(
    "values",
    [
        in_rows(np.nan, "a", "b"),
        in_rows(None, 1, 2),
        pd.array(in_rows("a", pd.NA, "b")),
        pd.array(in_rows(1, None, 3), dtype="Int64"),
        pd.Series(in_rows("a", None, "c"), dtype="string[pyarrow]"),
        np.ma.array(in_rows(1, 2, 3), mask=in_rows(True, False, False)),
        in_rows(pd.NaT, pd.Timestamp("2026-01-01"), pd.Timestamp("2026-01-02")),
    ],
)
def test_missing_names_are_refused_whatever_they_are_wrapped_in(values, what):
    with pytest.raises(InputError, match=f"of {N_ROWS} {what} are missing, first at row [01]"):
        code_names(values, what, N_ROWS)


@pytest.mark.filterwarnings("ignore:different labels look alike")  # "a\0" and "a"
@pytest.mark.parametrize(
    ("values", "kept"),
    [
        (in_rows("a\0", "a", "b"), ["a", "a\0", "b"]),
        (in_rows(2**63, 2**63 + 1, 0), [0, 2**63, 2**63 + 1]),
        (np.array(in_rows(2**64 - 1, 2**64 - 2), dtype=np.uint64), [2**64 - 2, 2**64 - 1]),
        (pd.array(in_rows(1, 2), dtype="Int64"), [1, 2]),
        (pd.array(in_rows(True, False), dtype="boolean"), [False, True]),
        (pd.Series(in_rows(5, 7), dtype="int64[pyarrow]"), [5, 7]),
        (np.array(in_rows(1, 2), dtype=np.float16), [1.0, 2.0]),
        (np.array(in_rows(1, 2), dtype=np.longdouble), [1.0, 2.0]),
        (in_rows(1, 2.0), [1.0, 2.0]),
        (in_rows(dt.date(2026, 1, 1), dt.date(2026, 1, 2)), [dt.date(2026, 1, 1), dt.date(2026, 1, 2)]),
    ],
)
def test_labels_stay_what_they_are_in_fit_report_save_and_load(values, kept, tmp_path):
    model = ERMClassifier(hidden=2, epochs=1, random_state=0).fit(X, values)
    assert model.classes_.tolist() == kept
    assert list(map(type, model.classes_.tolist())) == list(map(type, kept))
    assert model.domain_report(X, values, min_cell_size=1).n_by_label.sum() == N_ROWS
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    assert list(map(type, again.classes_.tolist())) == list(map(type, kept))
    assert to_label_lists(again.predict_set(X), again.classes_) == to_label_lists(model.predict_set(X), model.classes_)


@pytest.mark.parametrize(
    "values",
    [
        in_rows(1, "1"),
        in_rows(b"a", b"b"),
        in_rows((1, 2), (3, 4)),
        in_rows(*Colour),
        in_rows(decimal.Decimal("1.5"), decimal.Decimal(2)),
        in_rows(1j, 2j),
        in_rows({}, {1: 2}),
        in_rows(1.5, 2.5),
        in_rows(np.inf, 1.0),
        in_rows("\ud800", "a"),
        np.zeros((N_ROWS, 2)),
        np.array(3),
        "text",
        (row % 2 for row in range(N_ROWS)),
        np.timedelta64(1, "s") * np.arange(N_ROWS),
    ],
)
@pytest.mark.parametrize("model", [ERMClassifier(epochs=1), ConformalSetClassifier(LogisticRegression())])
def test_what_is_no_label_is_refused_in_one_line(model, values):
    assert is_refused(answer(model.fit, X, values))


def test_a_label_of_another_kind_is_not_taken_for_one_that_reads_alike():
    with pytest.raises(InputError, match=r"labels that training did not: '1'"):
        label_codes(["1", "1"], np.array([1, 2]))


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([np.int64(0)] * HALF + [1] * HALF, [0, 1]),
        ([np.int64(0)] * HALF + [np.int32(1)] * HALF, [0, 1]),
        ([np.str_("a")] * HALF + ["b"] * HALF, ["a", "b"]),
        ([[0]] * HALF + [[1]] * HALF, [0, 1]),
    ],
)
@pytest.mark.filterwarnings("ignore:A column-vector y")
def test_what_is_the_same_kind_to_a_user_is_one_kind(labels, classes):
    X = np.arange(2 * HALF, dtype=float)[:, None]
    model = ConformalSetClassifier(LogisticRegression(), "pooled", calibration="training-data").fit(X, labels)
    assert model.classes_.tolist() == classes
    assert {type(name) for name in model.classes_.tolist()} == {type(classes[0])}
