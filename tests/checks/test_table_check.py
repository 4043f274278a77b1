"""What a check finds in tables that were made with it, and that it finds nothing where there is nothing."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from domaincover import InputError, check_table
from domaincover.checks.column_check import bins_of, domain_leak, label_leak

N_DOMAINS, N_ROWS = 12, 100


def made(seed=0, **columns):
    """Return a table of noise with further columns, made from the labels and domains, its labels and its domains."""
    rng = np.random.default_rng(seed)
    domains = np.repeat([f"ward {k}" for k in range(N_DOMAINS)], N_ROWS)
    labels = rng.choice(["ill", "mild", "well"], len(domains))
    X = pd.DataFrame({"noise": rng.normal(size=len(domains)), "colour": rng.choice(["red", "blue"], len(domains))})
    drawn = SimpleNamespace(rng=rng, y=pd.Series(labels), d=pd.Series(domains))
    given = {name: make(drawn) for name, make in columns.items()}
    return X.assign(**given), pd.Series(labels, name="outcome"), pd.Series(domains, name="ward")


def harms(check, name):
    return [finding.harm for finding in check.findings if finding.what.startswith(name)]


def column_of(check, name):
    return next(column for column in check.columns if column.name == name)


@pytest.mark.parametrize("seed", range(2))
def test_a_table_without_faults_has_no_findings(seed):
    check = check_table(*made(seed))
    assert check.findings == ()
    assert check.drop == ()
    assert "Nothing to change was found." in str(check)


# Columns that give something away


@pytest.mark.parametrize(
    "copy",
    [
        lambda t: t.y.str.upper(),
        lambda t: t.y.map({"ill": 3, "mild": 1, "well": 2}),
        lambda t: t.y.map({"ill": "2020-01-01", "mild": "2021-01-01", "well": "2022-01-01"}),
    ],
)
def test_a_copy_of_the_label_misleads_however_it_is_written(copy):
    check = check_table(*made(told=copy))
    assert check.findings[0].harm == "misleads"
    assert check.findings[0].what.startswith("told gives outcome away")
    assert check.drop == ("told",)
    assert column_of(check, "told").tells_label > 0.99


def test_a_copy_of_the_label_with_some_noise_misleads():
    check = check_table(*made(told=lambda t: t.y.map({"ill": 3, "mild": 1, "well": 2}) + t.rng.normal(0, 0.01, 1200)))
    assert harms(check, "told") == ["misleads"]
    assert column_of(check, "told").tells_label > 0.95


def test_a_column_that_nearly_copies_the_label_is_pointed_out_but_not_dropped():
    def nearly(t):
        return t.y.where(t.rng.random(len(t.y)) < 0.96, "ill")

    (finding,) = check_table(*made(told=nearly)).findings
    assert (finding.harm, finding.drop) == ("misleads", ())
    assert finding.what.startswith("told nearly gives outcome away")


def test_a_column_that_gives_one_label_away_names_it():
    (finding,) = check_table(*made(told=lambda t: t.y == "mild")).findings
    assert finding.what == "told gives the label 'mild' away in domains that did not teach it."


def test_a_code_of_labels_that_differs_by_domain_tells_no_label():
    check = check_table(*made(code=lambda t: t.y + t.d))
    assert column_of(check, "code").tells_label < 0.6
    assert "misleads" in harms(check, "code")  # of the domain


def test_another_name_of_the_domain_is_found():
    check = check_table(*made(site=lambda t: t.d.str.replace("ward", "site")))
    assert check.findings[0].what == "site is another name of ward: one value for each."
    assert check.drop == ("site",)


def test_a_number_that_tells_the_domain_is_found():
    check = check_table(*made(level=lambda t: t.d.str[5:].astype(float) + t.rng.uniform(0, 0.9, len(t.d))))
    assert check.findings[0].what.startswith("level gives ward away: it tells the domain of")


def test_a_column_with_one_value_in_each_of_several_domains_weakens():
    check = check_table(*made(big=lambda t: t.d.isin(["ward 1", "ward 2"])))
    assert harms(check, "big") == ["weakens"]


@pytest.mark.parametrize("n_labels", [2, 5])
def test_noise_tells_a_label_as_often_as_chance(n_labels):
    rng = np.random.default_rng(0)
    labels, domains = rng.integers(n_labels, size=6000), np.arange(6000) % 20
    found = [
        label_leak(bins_of(pd.Series(rng.normal(size=6000)), "number"), labels, domains, n_labels, rng)[0].mean()
        for _ in range(5)
    ]
    error = np.sqrt((1 - 1 / n_labels) / n_labels / 6000 * n_labels)
    assert np.abs(np.array(found) - 1 / n_labels).max() < 4 * error


def test_bins_that_point_to_a_domain_are_counted_on_other_rows():
    domains = np.repeat(np.arange(4), 50)
    found = domain_leak(domains + 1, domains, np.random.default_rng(0))
    assert found == {"tells_domain": 1.0, "is_constant_in_domains": True, "is_copy_of_domain": True}
    assert not domain_leak(np.arange(200), domains, np.random.default_rng(0))["tells_domain"]  # each value occurs once


# Rows, cells and missing values


def test_rows_without_label_or_domain_stop_a_fit_and_are_counted():
    X, y, d = made()
    y[:3], d[5:7] = None, None
    check = check_table(X, y, d)
    assert [(finding.harm, finding.what) for finding in check.findings[:2]] == [
        ("stops", "outcome is empty in 3 rows."),
        ("stops", "ward is empty in 2 rows."),
    ]
    assert check.counts.to_numpy().sum() == len(X) - 5


def test_small_cells_are_counted():
    X, y, d = made()
    rare = (y == "mild") & (d != "ward 0") & (np.arange(len(y)) % 10 > 0)
    check = check_table(X[~rare], y[~rare], d[~rare], min_cell_size=20)
    small = (check.counts < 20).to_numpy().sum()
    assert any(finding.what.startswith(f"In {small} of 36 cells") for finding in check.findings)
    assert any("Too few domains have 20 rows or more of: mild (1)" in finding.what for finding in check.findings)


def test_missing_values_are_counted_with_their_marks_and_by_domain():
    def partly(t):
        return pd.Series(t.rng.integers(1000, 9999, len(t.d)).astype(str)).where(t.d != "ward 3", "?")

    column = column_of(check := check_table(*made(dose=partly)), "dose")
    assert (column.kind, column.n_missing, column.n_domains_without) == ("number", N_ROWS, 1)
    assert "Empty in whole domains: dose (1) of 12." in str(check)


def test_identifiers_constants_empty_columns_and_texts_are_pointed_out():
    check = check_table(
        *made(
            visit_id=lambda t: np.arange(len(t.y)) + 10**6,
            same=lambda t: len(t.y),
            nothing=lambda t: [None] * len(t.y),
            note=lambda t: [f"a long text, number {k}, of a visit" for k in range(len(t.y))],
            dose=lambda t: np.where(t.rng.random(len(t.y)) < 0.1, "low", "12"),
        )
    )
    assert "visit_id" in check.drop
    assert harms(check, "same") == harms(check, "nothing") == harms(check, "note") == ["note"]
    assert harms(check, "dose") == ["weakens"]  # nearly numbers


# What is possible


@pytest.mark.parametrize(("n_domains", "beside", "alone"), [(2, "0.5", "0.666"), (12, "0.9", "0.923")])
def test_the_highest_promise_is_what_the_domains_allow(n_domains, beside, alone):
    rows = np.arange(200 * n_domains)
    told = check_table(pd.DataFrame({"noise": rows % 7}), rows % 2, rows // 200).reach
    assert f"--domain-confidence {beside} beside an evaluation, and {alone} without one" in told
    assert f"{n_domains} of all have them" in told


def test_one_label_in_all_rows_is_rejected():
    X, _, d = made()
    with pytest.raises(InputError, match="every label is 'well'; sets need at least two"):
        check_table(X, ["well"] * len(X), d)


def test_labels_of_another_number_of_rows_are_rejected():
    X, y, d = made()
    with pytest.raises(InputError, match="X has 1200 rows, but there are 1199 labels"):
        check_table(X, y[:-1], d)


def test_as_json_it_holds_everything():
    found = json.loads(check_table(*made(copy=lambda t: t.y)).to_json())
    assert np.array(found["counts"]).shape == (N_DOMAINS, 3)
    assert [column["name"] for column in found["columns"]] == ["noise", "colour", "copy"]
    assert found["findings"][0]["drop"] == ["copy"]


@pytest.mark.parametrize("width", [60, 120])
def test_sentences_of_the_text_fit_the_width(width):
    text = check_table(*made(copy=lambda t: t.y)).text(width, for_shell=True)
    assert max(map(len, text.splitlines())) <= width
    assert "--drop copy" in text
