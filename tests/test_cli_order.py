"""Domains in an order on the command line: what drifts is named, and the last domains are what is judged."""

import json

import numpy as np
import pandas as pd
import pytest

from domaincover import load
from domaincover.checks.table_check import drift_of, in_order

YEARS = list(range(1990, 2020))
FIT = ["--label", "found", "--method", "erm", "--base", "boosting"]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(0)
    year = np.repeat(YEARS, 80)
    found = rng.integers(0, 2, len(year))
    level = rng.normal(size=len(year)) + found * (2 - 0.05 * (year - 1990)) + 0.06 * (year - 1990)
    site = pd.Series(year).map(dict(zip(YEARS, rng.permutation(len(YEARS)), strict=True))).map("site {}".format)
    rows = pd.DataFrame({"level": level, "noise": rng.normal(size=len(year)), "found": found, "year": year})
    rows.insert(
        0, "day", pd.to_datetime(rows["year"].astype(str)) + pd.to_timedelta(rng.integers(0, 90, len(year)), "D")
    )
    path = tmp_path_factory.mktemp("order") / "visits.csv"
    rows.assign(site=site).to_csv(path, index=False)
    return path


def test_the_last_domains_are_judged_and_the_order_is_kept(here, table, tmp_path):
    out = tmp_path / "model"
    status, _, said = here("fit", table, *FIT, "--domain", "year", "--order", "year", "--drop", "site", "--out", out)
    assert status == 0
    assert "Evaluating on 8 of 30 domains the last by year." in said
    assert "the later of them weigh more" in said
    model = load(out)
    assert list(model.domain_order) == YEARS
    settings = json.loads((out / "extra.json").read_text())
    assert settings["settings"]["order"] == "year"
    judged = [each["domain"] for each in settings["assessment"]["unseen"]["model"]["domains"]]
    assert sorted(map(int, judged)) == YEARS[-8:]


def test_a_column_of_dates_orders_sites_and_is_not_learned_from(here, table, tmp_path):
    out = tmp_path / "model"
    assert here("fit", table, *FIT, "--domain", "site", "--order", "day", "--drop", "year", "--out", out)[0] == 0
    rows = pd.read_csv(table)
    by_year = rows.groupby("site")["year"].first().sort_values().index.tolist()
    model = load(out)
    assert list(model.domain_order) == by_year
    assert "day" not in model.feature_names_in_


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--order", "nowhere"], "--order"),
        (["--order", "found"], "is the column of labels (--label)"),
        (["--order", "site"], "--order site: it must have a number or a date like 2026-03-31 in every row."),
        (["--order", "year", "--domain-confidence", "none"], "--order is for a promise"),
        (["--order", "year", "--hold-out-domains", 0.8], "takes 9 domains with 20 or more rows of a label"),
    ],
)
def test_an_order_that_cannot_be_is_refused(refused, table, tmp_path, options, said):
    refused(said, "fit", table, *FIT, "--domain", "year", *options, "--out", tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_check_names_what_drifts(here, table):
    found = here("check", table, "--label", "found", "--domain", "year", "--drop", "site", "--drop", "day")[1]
    words = " ".join(found.split())
    assert "Domains drift along year: the mean of level rises (rank correlation" in words
    assert "fit --order year" in words
    assert "drift along" not in here("check", table, "--label", "found", "--domain", "site", "--drop", "year")[1]


def test_numbers_without_order_are_reported_as_rarely_as_said():
    rng = np.random.default_rng(1)
    order = np.arange(20.0)
    reported = sum(drift_of({str(k): rng.normal(size=20) for k in range(5)}, order) is not None for _ in range(300))
    assert reported <= 3  # more than three of 300 at 0.001: one in 4,000 draws


@pytest.mark.parametrize(
    ("names", "are"),
    [
        (["2014-04", "2015-01"], True),
        (["2013-01-31", "2013-02-01"], True),
        (["7", "10"], True),
        (["ward 7", "ward 8"], False),
        (["2014", None], False),
    ],
)
def test_names_that_are_numbers_or_dates_have_an_order(names, are):
    found = in_order(pd.Series(names))
    assert (found is not None) == are
    assert found is None or found[0] < found[1]


def test_fit_says_what_misleads_before_it_trains(here, table, tmp_path):
    rows = pd.read_csv(table).drop(columns=["site", "day"])
    rows.assign(told=rows["found"] + 0.5).to_csv(tmp_path / "told.csv", index=False)
    fit = ["fit", tmp_path / "told.csv", *FIT, "--domain", "year", "--no-final-fit", "--out", tmp_path / "model"]
    said = here(*fit)[2]
    assert "Note: told gives found away: by itself it tells 100 % of each label" in said
    assert "To leave out: --drop told" in said
    assert "Note: Domains drift along year" in said
    assert "drift along" not in here(*fit, "--order", "year", "--drop", "told")[2]
