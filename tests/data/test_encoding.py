import datetime
import decimal
import pickle  # noqa: TID251 - what joblib does to an encoder, not how we save it

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone

from domaincover import InputError, TableEncoder
from domaincover.data.columns import column_kind
from domaincover.data.encoding import as_table
from domaincover.data.table_encoding import FAR

DAYS = pd.date_range("2024-01-29", periods=6)  # a Monday, and a leap year
LETTERS = list("abcabc")
TYPED = {
    "int": (pd.Series(range(6)), "number"),
    "uint8": (pd.Series(range(6), dtype="uint8"), "number"),
    "float16": (pd.Series(range(6), dtype="float16"), "number"),
    "float32": (pd.Series(range(6), dtype="float32"), "number"),
    "nullable int": (pd.Series([0, 1, 2, None, 4, 5], dtype="Int64"), "number"),
    "nullable float": (pd.Series([0, 1, 2, None, 4, 5], dtype="Float32"), "number"),
    "arrow int": (pd.Series([0, 1, 2, None, 4, 5], dtype="int64[pyarrow]"), "number"),
    "arrow decimal": (pd.Series(map(decimal.Decimal, range(6)), dtype=pd.ArrowDtype(pa.decimal128(9, 2))), "number"),
    "sparse": (pd.Series(pd.arrays.SparseArray([0.0, 0.0, 2.0, 0.0, 0.0, 5.0])), "number"),
    "timedelta": (pd.Series(DAYS - DAYS[0]), "number"),
    "arrow duration": (pd.Series(DAYS - DAYS[0]).astype(pd.ArrowDtype(pa.duration("us"))), "number"),
    "timedelta objects": (pd.Series([datetime.timedelta(k) for k in range(6)], dtype=object), "number"),
    "decimal objects": (pd.Series([decimal.Decimal(k) for k in range(6)]), "number"),
    "number objects": (pd.Series([0, 1.5, None, 3, 4, 5], dtype=object), "number"),
    "all missing": (pd.Series([np.nan] * 6), "number"),
    "bool": (pd.Series([True, False] * 3), "boolean"),
    "nullable bool": (pd.Series([True, False, None] * 2, dtype="boolean"), "boolean"),
    "arrow bool": (pd.Series([True, False, None] * 2, dtype="bool[pyarrow]"), "boolean"),
    "bool objects": (pd.Series([True, False, None] * 2, dtype=object), "boolean"),
    "dates": (pd.Series(DAYS), "date"),
    "dates in seconds": (pd.Series(DAYS).astype("datetime64[s]"), "date"),
    "dates with zone": (pd.Series(DAYS.tz_localize("Asia/Tokyo")), "date"),
    "arrow dates": (pd.Series([day.date() for day in DAYS], dtype=pd.ArrowDtype(pa.date32())), "date"),
    "arrow time stamps": (pd.Series(DAYS).astype("timestamp[us][pyarrow]"), "date"),
    "date objects": (pd.Series([day.date() for day in DAYS], dtype=object), "date"),
    "ISO text": (pd.Series(DAYS.strftime("%Y-%m-%d")), "date"),
    "ISO text with times": (pd.Series([f"2024-01-{k + 10}T07:30:00Z" for k in range(6)]), "date"),
    "periods": (pd.Series(DAYS.to_period("M")), "date"),
    "all missing dates": (pd.Series([pd.NaT] * 6), "date"),
    "category": (pd.Series(LETTERS, dtype="category"), "category"),
    "category of numbers": (pd.Series([1, 2, None] * 2, dtype="category"), "category"),
    "text": (pd.Series(LETTERS), "category"),
    "text objects": (pd.Series(["a", "b", None] * 2, dtype=object), "category"),
    "nullable text": (pd.Series(["a", "b", None] * 2, dtype="string"), "category"),
    "arrow text": (pd.Series(["a", "b", None] * 2, dtype=pd.ArrowDtype(pa.string())), "category"),
    "arrow dictionary": (pd.Series(LETTERS).astype(pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string()))), "category"),
    "numbers as text": (pd.Series(list("123123")), "category"),
    "times of day": (pd.Series([datetime.time(7), datetime.time(8)] * 3), "category"),
    "mixed objects": (pd.Series([1, "a", 2.0, None, True, (1, 2)], dtype=object), "category"),
    "all missing objects": (pd.Series([None] * 6, dtype=object), "category"),
}
of_every_kind = pytest.mark.parametrize(("column", "kind"), TYPED.values(), ids=TYPED.keys())


def everything():
    return pd.DataFrame({name: column for name, (column, _) in TYPED.items()})


def encoded(column, new=None, **settings):
    """Encode `new` as learned from `column`, beside a column of numbers."""
    encoder = TableEncoder(**settings).fit(pd.DataFrame({"it": column}))
    return encoder.transform(pd.DataFrame({"it": column if new is None else new}))


@of_every_kind
def test_a_column_is_known_by_its_type_or_its_values(column, kind):
    assert column_kind(column) == kind


@of_every_kind
def test_a_column_of_any_kind_becomes_finite_numbers(column, kind):  # noqa: ARG001
    matrix = encoded(column)
    assert matrix.dtype == np.float32
    assert np.isfinite(matrix).all()


@of_every_kind
def test_a_chunk_of_rows_encodes_as_the_whole_does(column, kind):  # noqa: ARG001
    assert np.array_equal(encoded(column, column.iloc[2:5]), encoded(column)[2:5])


def test_rows_of_many_columns_encode_alone_as_together():
    table = everything()
    encoder = TableEncoder().fit(table)
    rows = [encoder.encode(table.iloc[k : k + 1]) for k in range(len(table))]
    assert np.array_equal(np.concatenate(rows), encoder.transform(table))


def test_there_is_a_name_for_every_column_of_the_matrix():
    table = everything()
    for scale in (True, False):
        encoder = TableEncoder(scale=scale).fit(table)
        names = encoder.get_feature_names_out()
        assert len(set(names)) == len(names) == encoder.transform(table).shape[1] == encoder.n_features_out


def test_names_tell_the_column_its_part_its_mark_or_its_level():
    table = pd.DataFrame({"age": [1.0, None], "when": ["2024-01-01", None], "ward": ["A", None]})
    assert TableEncoder().fit(table).get_feature_names_out().tolist() == [
        "age", "when day", "when sin of year", "when cos of year", "when sin of week", "when cos of week",
        "age missing", "when day missing", "ward=A", "ward=missing",
    ]  # fmt: skip


def test_features_of_an_array_are_named_as_scikit_learn_does():
    encoder = TableEncoder().fit([[1.0, np.nan], [2.0, 3.0]])
    assert encoder.get_feature_names_out().tolist() == ["x0", "x1", "x1 missing"]
    assert encoder.get_feature_names_out(["a", "b"]).tolist() == ["a", "b", "b missing"]


def test_the_output_can_be_a_table():
    table = pd.DataFrame({"age": [1.0, 3.0], "ward": ["A", "B"]}, index=["Ann", "Bob"])
    out = TableEncoder().set_output(transform="pandas").fit_transform(table)
    assert out.columns.tolist() == ["age", "ward=A", "ward=B"]
    assert out.index.tolist() == ["Ann", "Bob"]


def test_numbers_are_standardised():
    matrix = TableEncoder().fit_transform(np.random.default_rng(0).normal(7, 3, (1_000, 2)))
    assert np.abs(matrix).max() < FAR, "none is drawn in"
    np.testing.assert_allclose(matrix.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(matrix.std(axis=0), 1, atol=1e-6)


def test_mean_and_deviation_are_those_of_the_known_values():
    numbers = np.random.default_rng(0).normal(5, 2, (200, 3))
    numbers[::7, 1] = np.nan
    encoder = TableEncoder().fit(numbers)
    np.testing.assert_allclose(encoder.mean_, np.nanmean(numbers, axis=0))
    np.testing.assert_allclose(encoder.deviation_, np.nanstd(numbers, axis=0))


def test_without_scaling_numbers_and_missing_ones_stay():
    np.testing.assert_array_equal(encoded([5.0, None], scale=False), [[5], [np.nan]])


def test_constant_and_missing_columns_are_zero():
    matrix = TableEncoder().fit_transform(np.column_stack([np.full(9, 0.1), np.full(9, 1e9), np.full(9, np.nan)]))
    np.testing.assert_allclose(
        matrix[:, :3], 0, atol=1e-15
    )  # nine times 0.1, divided by nine, is 0.1 but for its last bit


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_far_numbers_are_drawn_in_without_changing_the_order(dtype):
    encoder = TableEncoder().fit(np.random.default_rng(0).normal(size=(99, 1)).astype(dtype))
    far = np.concatenate([np.linspace(-10, 10, 101), np.geomspace(11, 1e30, 99)]).astype(dtype)
    drawn = encoder.transform(far[:, None])[:, 0]
    assert (np.diff(drawn) > 0).all()
    assert drawn.max() < 80


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_largest_numbers_of_a_type_are_drawn_in_too(dtype):
    encoder = TableEncoder().fit(np.array([[1e-3], [2e-3], [3e-3]], dtype))
    limits = np.finfo(dtype)
    assert np.isfinite(encoder.transform(np.array([[limits.min], [limits.max]], dtype))).all()


def test_numbers_are_drawn_in_from_where_they_are_far():
    matrix = encoded([-1.0, 1.0], [-FAR, FAR, FAR + 1])
    np.testing.assert_allclose(matrix[:, 0], [-FAR, FAR, FAR + np.log(2)], rtol=1e-6)


@pytest.mark.parametrize(
    "laid_out",
    [
        np.asfortranarray,
        lambda X: X[::-1][::-1],
        lambda X: np.repeat(X, 2, axis=0)[::2],
        lambda X: X.T.copy()[::-1][::-1].T,
    ],
    ids=["by column", "backwards", "every other row", "columns backwards"],
)
def test_far_and_missing_numbers_encode_alike_however_they_lie_in_memory(laid_out):
    X = np.random.default_rng(0).standard_normal((50, 4))
    encoder = TableEncoder().fit(X)
    X[3, 1], X[7, 2], X[-1, 0] = 1e6, np.nan, -50
    encoded = encoder.encode(X)
    assert np.isfinite(encoded).all()
    assert FAR < np.abs(encoded).max() < 30
    np.testing.assert_array_equal(encoder.encode(laid_out(X)), encoded)
    np.testing.assert_array_equal(encoder.encode(laid_out(X)[::-1]), encoded[::-1])
    np.testing.assert_array_equal(encoder.encode(laid_out(X)[::3]), encoded[::3])


def test_single_and_double_precision_agree():
    numbers = np.random.default_rng(0).normal(100, 20, (500, 3)).astype(np.float32)
    numbers[0, 0] = np.nan
    single, double = (TableEncoder().fit_transform(numbers.astype(dtype)) for dtype in (np.float32, np.float64))
    np.testing.assert_allclose(single, double, atol=1e-5)  # 100 has a spacing of 8e-6 in single precision


def test_a_table_of_numbers_encodes_as_an_array_of_them():
    numbers = np.random.default_rng(0).normal(size=(50, 3))
    table = pd.DataFrame(numbers, columns=["a", "b", "c"])
    assert np.array_equal(TableEncoder().fit_transform(table), TableEncoder().fit_transform(numbers))


def test_an_encoder_of_an_array_knows_no_kinds_times_or_categories():
    encoder = TableEncoder().fit([[1.0], [2.0]])
    assert (encoder.kinds_, encoder.has_times_, encoder.categories_) == ({}, [], {})


@pytest.mark.parametrize(
    ("learned", "new", "matrix"),
    [
        ([1.0, 3.0, None, 2.0], [None, 2.0], [[0, 1], [0, 0]]),
        ([1.0, 3.0], [None, 2.0], [[0], [0]]),
        ([2.0, 2.0], [2.0, 3.5], [[0], [1.5]]),
        (["a", "b"], ["b", "z", None, "a"], [[0, 1], [0, 0], [0, 0], [1, 0]]),
        (["a", None], ["a", None, "z"], [[1, 0], [0, 1], [0, 0]]),
        (pd.Categorical([1, 2]), pd.Series([2.0, None, 1.0], dtype=object), [[0, 1], [0, 0], [1, 0]]),
    ],
    ids=[
        "a missing number is the mean, with a mark where training had some",
        "a missing number is the mean without a mark where training had none",
        "a new value of a constant column is its distance",
        "a level has a column, and an unseen one has none",
        "a missing category is a level where training had one",
        "whole numbers of a category are the same level with missing ones beside them",
    ],
)
def test_new_values_are_encoded_as_was_learned(learned, new, matrix):
    assert encoded(learned, new).tolist() == matrix


def test_equal_values_of_different_kinds_are_levels_of_their_own():
    column = pd.Series([1, True, "a"], dtype=object)
    assert encoded(column, pd.Series([True, 1], dtype=object)).tolist() == encoded(column)[[1, 0]].tolist()
    assert encoded(column).tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]


def test_levels_do_not_depend_on_the_type_that_holds_them():
    text = pd.Series(LETTERS)
    for other in (text.astype("category"), text.astype(object), text.astype("string")):
        assert np.array_equal(encoded(text, other), encoded(text))


def test_the_most_frequent_levels_are_kept():
    encoder = TableEncoder(max_categories=2).fit(pd.DataFrame({"it": list("aabbbc")}))
    assert encoder.categories_["it"].levels == ("a", "b")


def test_text_that_differs_from_row_to_row_is_ignored():
    table = pd.DataFrame({"name": [f"patient {k}" for k in range(60)], "age": range(60)})
    encoder = TableEncoder().fit(table)
    assert encoder.kinds_ == {"name": "ignored", "age": "number"}
    assert encoder.get_feature_names_out().tolist() == ["age"]


def test_a_date_is_a_day_count_and_its_place_in_year_and_week():
    column = pd.Series(["1970-01-01", "1970-01-08"])
    days, *cycles = encoded(column, scale=False).T
    assert days.tolist() == [0, 7]
    np.testing.assert_allclose(cycles[2:], [[0, 0], [1, 1]], atol=1e-6)
    np.testing.assert_allclose(cycles[0], np.sin(2 * np.pi * days / 365.2425), atol=1e-6)


def test_a_time_of_day_is_encoded_where_training_had_one():
    with_time = encoded(pd.Series(["1970-01-01 06:00", "1970-01-01 12:00"]), scale=False)
    assert with_time.shape == (2, 7)
    np.testing.assert_allclose(with_time[:, 5:], [[1, 0], [0, -1]], atol=1e-6)


def test_the_same_moment_encodes_alike_whatever_its_zone_or_type():
    utc = pd.Series(pd.date_range("2024-03-30 22:30", periods=4, freq="7h", tz="UTC"))
    others = utc.dt.tz_convert("America/Lima"), utc.dt.strftime("%Y-%m-%dT%H:%M:%SZ"), utc.dt.tz_localize(None)
    for other in others:
        assert np.array_equal(encoded(utc, other), encoded(utc))


def test_the_end_of_time_of_a_table_is_a_date():
    assert encoded(["2024-01-01", "9999-12-31"], scale=False)[1, 0] == 2_932_896  # days from 1970


@pytest.mark.parametrize(
    ("learned", "new", "message"),
    [
        ([1.0, 2.0], ["3", "n/a"], "column 'it' held numbers when the model was fitted, but holds 'n/a' at row 1."),
        ([True, False], [None, "yes"], "column 'it' held numbers when the model was fitted, but holds 'yes' at row 1."),
        ([1.0, 2.0], pd.to_datetime(["2024-01-31"] * 2), "column 'it' held numbers .* '2024-01-31 00:00:00' at row 0"),
        ([1.0, 2.0], [1j, 2j], "column 'it' held numbers when the model was fitted, but holds '1j' at row 0"),
        ([1.0, 2.0], [1.0, np.inf], "column 'it' holds an infinite value at row 1; replace it or leave it empty"),
        (
            ["2024-01-01", "2024-01-02"],
            ["2024-01-03", "31.1.2024"],
            "column 'it' held dates when the model was fitted, but holds '31.1.2024' at row 1; "
            "dates are written as 2026-01-31",
        ),
        (["2024-01-01", "2024-01-02"], [20240101, 20240102], "column 'it' held dates .* holds '20240101' at row 0"),
        (["2024-01-01", "2024-01-02"], ["2024-01-01", "2024-13-01"], "holds '2024-13-01' at row 1; dates are"),
        (
            ["a", "b"],
            [["a"], ["b"]],
            "column 'it' contains lists or other objects; only numbers, booleans",
        ),
    ],
)
def test_a_column_that_becomes_something_else_is_refused_with_the_row(learned, new, message):
    with pytest.raises(InputError, match=message):
        encoded(learned, new)


def test_a_fault_in_a_part_of_a_table_is_told_by_its_row_in_the_whole():
    encoder = TableEncoder().fit(pd.DataFrame({"it": [1.0, 2.0]}))
    with pytest.raises(InputError, match="holds 'x' at row 8"):
        encoder.encode(pd.DataFrame({"it": ["1"] * 8 + ["x"]}).iloc[5:])


def test_numbers_and_truth_values_written_as_text_are_read():
    assert np.array_equal(encoded([1.0, 2.5], ["2.5", None]), encoded([1.0, 2.5], [2.5, None]))
    assert np.array_equal(encoded([True, False], ["False", "true"]), encoded([True, False], [False, True]))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pd.DataFrame({"it": [[1], [2]]}), "column 'it' contains lists or other objects"),
        (pd.DataFrame({"it": [1.0, -np.inf]}), "column 'it' holds an infinite value at row 1"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "more than one column 'a'; rename all but one"),
        (pd.DataFrame({"a": []}), r"0 sample\(s\) and 1 feature"),
        (pd.DataFrame(index=[0, 1]), r"2 sample\(s\) and 0 feature"),
        (pd.DataFrame({"name": [f"patient {k}" for k in range(60)]}), "every column is text with mostly distinct"),
    ],
)
def test_a_table_that_cannot_be_learned_from_is_refused(table, message):
    with pytest.raises(InputError, match=message):
        TableEncoder().fit(table)


def test_columns_with_other_names_are_refused():
    encoder = TableEncoder().fit(pd.DataFrame({"a": [1, 2], "b": [3, 4]}))
    assert encoder.feature_names_in_.tolist() == ["a", "b"]
    for names in (["b", "a"], ["a", "c"]):
        with pytest.raises(ValueError, match="feature names should match those that were passed during fit"):
            encoder.transform(pd.DataFrame([[1, 2]], columns=names))


def test_columns_named_by_numbers_are_found_by_name():
    table = pd.DataFrame({7: [1.0, 2.0], 3: ["a", "b"]})
    encoder = TableEncoder().fit(table)
    assert encoder.get_feature_names_out().tolist() == ["7", "3=a", "3=b"]
    assert np.array_equal(encoder.transform(table[[3, 7]]), encoder.transform(table))
    with pytest.raises(InputError, match="the table has no column 3, which the model was fitted on"):
        encoder.transform(table.rename(columns={3: 4}))


def test_an_array_after_a_table_is_taken_in_the_order_of_its_columns():
    table = pd.DataFrame({"a": [1.0, 2.0], "b": [30.0, 40.0]})
    encoder = TableEncoder().fit(table)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        assert np.array_equal(encoder.transform(table.to_numpy()), encoder.transform(table))


def test_a_table_after_an_array_is_taken_in_the_order_of_its_columns():
    table = pd.DataFrame({"a": [1.0, 2.0], "b": [30.0, 40.0]})
    encoder = TableEncoder().fit(table.to_numpy())
    with pytest.warns(UserWarning, match="X has feature names, but TableEncoder was fitted without"):
        assert np.array_equal(encoder.transform(table), encoder.transform(table.to_numpy()))


def test_a_table_of_another_library_is_read_through_pandas():
    table = pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]})
    pd.testing.assert_frame_equal(as_table(pa.table(table)), table)
    assert np.array_equal(TableEncoder().fit_transform(pa.table(table)), TableEncoder().fit_transform(table))


def test_arrays_and_lists_are_no_tables():
    assert as_table(np.zeros((2, 2))) is as_table([[0, 1]]) is None


def test_whole_numbers_and_truth_values_in_arrays_are_numbers():
    for values in ([[1, 4], [2, 3]], [[True, False], [False, True]]):
        assert TableEncoder(scale=False).fit_transform(np.array(values)).tolist() == np.array(values).tolist()


def test_fit_forgets_what_it_learned_before():
    encoder = TableEncoder().fit(everything()).fit([[1.0], [2.0]])
    assert encoder.transform([[1.5]]).tolist() == [[0]]
    assert not hasattr(encoder, "feature_names_in_")


def test_copies_keep_settings_and_pickled_ones_what_was_learned():
    encoder = TableEncoder(scale=False, max_categories=7).fit(everything())
    assert clone(encoder).get_params() == {"scale": False, "max_categories": 7}
    again = pickle.loads(pickle.dumps(encoder))  # noqa: S301
    np.testing.assert_array_equal(again.transform(everything()), encoder.transform(everything()))


def test_the_given_table_and_array_stay_as_they_were():
    table, numbers = everything(), np.array([[1.0, np.nan], [99.0, 2.0]])
    table_before, numbers_before = table.copy(deep=True), numbers.copy()
    TableEncoder().fit_transform(table)
    TableEncoder().fit_transform(numbers)
    pd.testing.assert_frame_equal(table, table_before)
    np.testing.assert_array_equal(numbers, numbers_before)
