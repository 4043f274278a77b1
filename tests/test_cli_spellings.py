"""Columns whose spelling a model has learned, from every kind of file: a value is read alike wherever it stands."""

import json

import numpy as np
import pandas as pd
import pytest

from tests.wards import save_promised_regression

COMMA, POINT, PERCENT = ["1.200,50", "2.000", "3,5", "900"], ["1,200.50", "2,000", "3.5", "900"], ["12,5 %", "3 %"]
SAME = 1e-5  # scores are written with seven digits, and sums of few rows and of many are rounded differently
DATES = ["31/12/2020", "1/2/2021", "5/6/2021", "7/7/2021"]


def visits(spelled):
    """Return visits of twelve wards, in which the label goes with the number that is meant."""
    rng = np.random.default_rng(0)
    n = 12 * 40
    which = rng.integers(len(spelled), size=n)
    return pd.DataFrame(
        {
            "id": np.arange(n).astype(str),
            "dose": np.array(spelled, dtype=object)[which],
            "a": rng.normal(size=n) + which % 2,
            "ward": [f"w{k % 12}" for k in range(n)],
            "outcome": np.where((which % 2) ^ (rng.random(n) < 0.2), "ill", "well"),
        }
    )


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Return the folder of a model that has learned how some values are written; each is fitted once."""
    found = {}

    def model_of(spelled):
        key = json.dumps(spelled)
        if key not in found:
            table = visits(spelled)
            found[key] = tmp_path_factory.mktemp("models") / "model"
            save_promised_regression(table, ["dose", "a"], found[key])
        return found[key]

    return model_of


def scores(here, model, table, out, *options):
    code, _, said = here("predict", model, table, "--out", out, "--id", "id", "--scores", *options)
    assert code == 0, said
    found = pd.concat(map(pd.read_parquet, sorted(out.rglob("*.parquet")))) if out.is_dir() else pd.read_csv(out)
    return found.sort_values("id", key=lambda ids: ids.astype(int)).filter(like="score[").to_numpy()


def written(table, path):
    """Write a table with all values as text."""
    if path.suffix == ".parquet":
        table.to_parquet(path)
    else:
        table.to_csv(path, index=False, sep=";" if "semicolons" in path.name else ",")
    return path


ENDINGS = ["new.csv", "semicolons.csv", "new.csv.gz", "new.parquet"]


@pytest.mark.parametrize("name", ENDINGS)
@pytest.mark.parametrize(("spelled", "text"), [(COMMA, "2.000"), (COMMA, "900"), (POINT, "900"), (DATES, "1/2/2021")])
def test_a_file_of_one_text_gives_the_scores_that_it_has_among_others(here, models, tmp_path, name, spelled, text):
    table = visits(spelled)
    whole = scores(here, models(spelled), written(table, tmp_path / "whole.csv"), tmp_path / "whole-sets.csv")
    rows = (table["dose"] == text).to_numpy()
    alone = scores(here, models(spelled), written(table[rows], tmp_path / name), tmp_path / "sets.csv")
    np.testing.assert_allclose(alone, whole[rows], atol=SAME)


@pytest.mark.parametrize("options", [[], ["--domain", "ward"]])
def test_parts_of_one_text_give_the_scores_of_the_whole(here, models, tmp_path, options):
    table = visits(COMMA)
    whole = scores(here, models(COMMA), written(table, tmp_path / "whole.csv"), tmp_path / "whole-sets.csv", *options)
    for number, (_, rows) in enumerate(table.groupby("dose")):
        (tmp_path / "parts").mkdir(exist_ok=True)
        written(rows, tmp_path / "parts" / f"{number}.parquet")
    parts = scores(here, models(COMMA), tmp_path / "parts", tmp_path / "sets", *options)
    np.testing.assert_allclose(parts, whole, atol=SAME)


def test_an_evaluation_reads_them_like_a_prediction(here, models, tmp_path):
    table = visits(COMMA)
    table = table[table["dose"] == "2.000"]
    code, printed, said = here("evaluate", models(COMMA), written(table, tmp_path / "new.csv"), "--format", "json")
    assert code == 0, said
    as_parquet = here("evaluate", models(COMMA), written(table, tmp_path / "new.parquet"), "--format", "json")[1]
    assert json.loads(printed)["domains"] == json.loads(as_parquet)["domains"]


@pytest.mark.parametrize(
    ("spelled", "value", "message"),
    [
        (COMMA, "2.0", "holds '2.0' at row 1"),
        (PERCENT, "0.12", "holds '0.12' at row 1"),
        (DATES, "12/31/2020", "holds '12/31/2020' at row 1"),
        (["$1,200", "$3"], "3", "holds '3' at row 1"),
    ],
)
def test_another_spelling_is_rejected_with_its_row(models, refused, tmp_path, spelled, value, message):
    path = written(visits(spelled).assign(dose=value), tmp_path / "new.csv")
    refused(message, "predict", models(spelled), path, "--out", tmp_path / "sets.csv")


def test_a_comma_that_parted_thousands_is_not_read_in_a_file_with_a_decimal_comma(here, models, tmp_path):
    path = written(visits(POINT).assign(dose="1,500", a="0,5"), tmp_path / "semicolons.csv")
    code, _, said = here("predict", models(POINT), path, "--out", tmp_path / "sets.csv")
    assert (code, (tmp_path / "sets.csv").exists()) == (2, False)
    assert "'1,500' in row 1 can be read in two ways" in said


def test_thousands_in_a_file_with_a_decimal_comma_are_never_read_as_two(here, models, tmp_path):
    table = visits(COMMA).assign(dose=lambda rows: np.where(rows.index % 2, "2.000", "900"))
    whole = scores(here, models(COMMA), written(table, tmp_path / "commas.csv"), tmp_path / "whole-sets.csv")
    with_commas = table.assign(a=table["a"].astype(str).str.replace(".", ","))
    semicolons = written(with_commas, tmp_path / "semicolons.csv")
    np.testing.assert_allclose(scores(here, models(COMMA), semicolons, tmp_path / "sets.csv"), whole, atol=SAME)
    roles = ["--label", "outcome", "--domain", "ward", "--drop", "id"]
    quick = ["--method", "robust", "--base", "boosting", "--hold-out-domains", "0"]
    code, _, said = here("fit", semicolons, *roles, *quick, "--out", tmp_path / "model")
    assert code == 0, said
    assert "Note: column 'dose' is text, since '2.000' can be read in two ways" in said


def test_numbers_of_a_typed_file_are_taken_unless_they_may_be_misread_texts(here, models, refused, tmp_path):
    table, out = visits(COMMA), tmp_path / "sets.csv"
    as_numbers = {"1.200,50": 1200.5, "2.000": 2000.0, "3,5": 3.5, "900": 900.0}
    numbers = table.assign(dose=table["dose"].map(as_numbers))
    whole = scores(here, models(COMMA), written(table, tmp_path / "whole.csv"), tmp_path / "whole-sets.csv")
    np.testing.assert_allclose(
        scores(here, models(COMMA), written(numbers, tmp_path / "new.parquet"), out), whole, atol=SAME
    )
    path = written(numbers.assign(dose=1.234), tmp_path / "misread.parquet")
    refused("holds '1.234' at row 1", "predict", models(COMMA), path, "--out", tmp_path / "none.csv")
