"""Numbers and dates in the ways that people write them, and text that only looks like them."""

import datetime
import io
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domaincover import InputError
from domaincover.data.columns import DATES, NUMBERS, as_plain, doubt_about, spelling_of, spellings_of


def column(*values):
    return pd.Series(values, name="dose", dtype=object)


@pytest.mark.parametrize(
    ("values", "spelling", "read"),
    [
        (["1,200", "3", "12,345,678.5"], "1,200.50", [1200, 3, 12345678.5]),
        (["1.200,50", "3,5"], "1.200,50", [1200.5, 3.5]),
        (["$1,000", "-$7.50", "$ 3"], "$1,200.50", [1000, -7.5, 3]),
        (["5 €", "1.000,5 €"], "€1.200,50", [5, 1000.5]),
        (["12 %", "3.5%"], "12.5 %", [12, 3.5]),
        (["12,5 %", "3%"], "12,5 %", [12.5, 3]),
        (["1 200", "30"], "1,200.50", [1200, 30]),
        (["7", "?", "12"], "1,200.50", [7, np.nan, 12]),
        (["$5", "-", "$6"], "$1,200.50", [5, np.nan, 6]),
    ],
)
def test_numbers_are_read_as_they_are_written(values, spelling, read):
    assert spelling_of(column(*values)) == spelling
    np.testing.assert_array_equal(as_plain(column(*values), spelling), read)


@pytest.mark.parametrize(
    ("values", "spelling", "first"),
    [
        (["31/12/2020", "1/2/2021"], "day/month/year", "2020-12-31"),
        (["12/31/2020", "2/1/2021"], "month/day/year", "2020-12-31"),
        (["1.2.2021", "3.4.2021"], "day/month/year", "2021-02-01"),
        (["2020/12/31", "2021/1/2"], "year/month/day", "2020-12-31"),
        (["31/12/2020 23:59", "1/2/2021 07:00"], "day/month/year", "2020-12-31T23:59"),
    ],
)
def test_dates_are_read_where_their_order_is_settled(values, spelling, first):
    assert spelling_of(column(*values)) == spelling
    assert as_plain(column(*values), spelling).iloc[0] == pd.Timestamp(first)


@pytest.mark.parametrize(
    "values",
    [
        ["12345", "60200"],  # may be postcodes
        ["007", "012"],
        ["1,200", "low"],
        ["1,2,3", "4,5"],
        ["1/2/2021", "3/4/2021"],  # of which either may be the month
        ["31/12/2020", "12/31/2020"],
        ["31/02/2020"],
        ["2020-12-31"],  # plainly a date already
        ["red", "blue"],
        ["?", "-"],
        [],
    ],
)
def test_what_is_not_surely_a_number_or_a_date_stays_text(values):
    assert spelling_of(column(*values)) is None


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (["1/2/2021", "3/4/2021"], "holds dates such as '1/2/2021', whose order nothing settles; write them as 2026"),
        (["12", "13", "low"], "is text though 66.7 % of its values are numbers (not 'low')"),
        (["1,200.5", "1.200,5"], "holds numbers that are not all written alike"),
    ],
)
def test_a_doubt_says_what_to_do(values, said):
    assert said in doubt_about(column(*values))


@pytest.mark.parametrize("values", [["red", "blue"], ["12345", "60200"], ["1,200", "3"], ["2020-12-31"], [1.0, 2.0]])
def test_there_is_no_doubt_about_text_and_about_what_is_read(values):
    assert doubt_about(pd.Series(values)) is None


def test_a_new_value_that_is_written_in_another_way_is_named_with_its_row():
    with pytest.raises(InputError, match=r"column 'dose' was written like \$1,200.50 .* but holds 'low' at row 1"):
        as_plain(column("$5", "low"), "$1,200.50")


def test_percents_without_their_sign_are_not_guessed_at():
    with pytest.raises(InputError, match=r"was written like 12\.5 %"):
        as_plain(pd.Series([0.12], name="share"), "12.5 %")


def test_a_block_that_holds_plain_numbers_is_taken_as_it_is():
    np.testing.assert_array_equal(as_plain(pd.Series([1.5, 2.0]), "1,200.50"), [1.5, 2.0])


@pytest.mark.parametrize(
    ("values", "spelling", "held"),
    [
        ([1234.0, 2.0], "1.200,50", "'2.0' at row 1"),
        ([2.5, 36.6], "1.200,50", "'2.5' at row 0"),
        (np.array([12.345], dtype=np.float32), "€1.200,50", "at row 0"),
        (["1.200,50", 2.0], "1.200,50", "'2.0' at row 1"),
        (pd.Categorical([1.234]), "1.200,50", "'1.234' at row 0"),
        (pd.to_datetime(["2021-07-07", "2021-02-01"]), "day/month/year", "'2021-02-01 00:00:00' at row 1"),
        (["31/12/2020", pd.Timestamp("2021-02-01")], "day/month/year", "'2021-02-01 00:00:00' at row 1"),
    ],
)
def test_what_may_be_misread_already_is_rejected(values, spelling, held):
    message = rf"{spelling} .* but holds .*{held}, which a program may have misread; give it as text"
    with pytest.raises(InputError, match=message):
        as_plain(pd.Series(values, name="dose"), spelling)


@pytest.mark.parametrize(
    ("values", "spelling"),
    [
        ([2, 3], "1.200,50"),  # pandas reads no text with a point as a whole number
        ([2.0, 0.25], "1.200,50"),  # "0.25" is not written like this, so that the others are not either
        ([2.0, 1234.5], "1.200,50"),
        ([2.0, np.inf], "1.200,50"),  # which is rejected as a number
        ([0.0, np.nan, 5000.0], "1.200,50"),  # the same in both readings
        (pd.to_datetime(["2021-02-01", "2021-02-13"]), "day/month/year"),
        (pd.to_datetime(["2021-02-01"]), "year/month/day"),
    ],
)
def test_what_cannot_be_misread_is_taken_as_it_is(values, spelling):
    taken = pd.Series(values)
    pd.testing.assert_series_equal(as_plain(taken, spelling), taken)


@settings(max_examples=30)
@given(st.lists(st.from_regex(r"[1-9][0-9]{0,2}(\.[0-9]{3}){0,2}(,[0-9]{1,2})?", fullmatch=True), min_size=1))
def test_texts_that_pandas_misreads_are_never_read_as_other_numbers(texts):
    meant = as_plain(pd.Series(texts), "1.200,50")
    misread = pd.read_csv(io.StringIO("\n".join(["dose", *(f'"{text}"' for text in texts)])))["dose"]
    with suppress(InputError):  # where they may have been misread
        np.testing.assert_array_equal(as_plain(misread, "1.200,50").astype(float), meant)


def test_a_zero_in_front_of_a_comma_is_no_group_of_thousands():
    values = column("0,250", "1,500")
    assert spelling_of(values) == "1.200,50"
    np.testing.assert_array_equal(as_plain(values, "1.200,50"), [0.25, 1.5])


@settings(max_examples=40)
@given(st.lists(st.integers(-(10**9), 10**9), min_size=1), st.sampled_from(["$", "€", "£", ""]))
def test_whole_numbers_with_thousands_come_back(numbers, unit):
    texts = [f"{'-' if n < 0 else ''}{unit}{abs(n):,}" for n in numbers]
    found = spelling_of(pd.Series(texts))
    if found is not None:  # without a comma or a unit they are plain already
        np.testing.assert_array_equal(as_plain(pd.Series(texts), found), numbers)
    else:
        assert unit == ""
        assert all("," not in text for text in texts)


@settings(max_examples=40)
@given(st.lists(st.dates(datetime.date(1000, 1, 1)), min_size=1))
def test_days_before_months_come_back_or_stay_text(days):
    texts = pd.Series([f"{day.day}/{day.month}/{day.year}" for day in days])
    found = spelling_of(texts)
    if found == "day/month/year":
        assert as_plain(texts, found).dt.date.tolist() == days
    else:  # no day above 12 settles the order, unless all of them read as days of the second part
        assert found in (None, "month/day/year")
        assert found is None or max(day.day for day in days) <= 12


def test_only_columns_with_a_spelling_of_their_own_are_listed():
    table = pd.DataFrame({"a": ["$1", "$2"], "b": ["x", "y"], "c": [1, 2]})
    assert spellings_of(table) == {"a": "$1,200.50"}
    assert set(spellings_of(table).values()) <= {*NUMBERS, *DATES}
