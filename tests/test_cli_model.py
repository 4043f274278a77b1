"""The commands for one's own data, on made-up patients of several wards.

What is printed, written and seen by another process is asked of real processes. Refusals, of which there are many,
call `main` in this one.
"""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from threadpoolctl import threadpool_limits

from domaincover import load, to_label_lists
from domaincover.data import tables
from domaincover.report.domain_reports import sizes_in_words
from domaincover.saving.models import load_extra
from tests.fuzz.damage import flipped
from tests.processes import call, without_progress
from tests.saving.test_forgeries import forge
from tests.wards import LABELS, QUICK, ROLES, patients, written

FEW = ["--epochs", 10]


@pytest.fixture(autouse=True)
def one_thread():
    """Trees on as many threads as there are cores take minutes where the cores are busy with something else."""
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("patients, with spaces")


@pytest.fixture(scope="module")
def fitted(folder):
    """The process that fitted the model of this module, on a CSV file."""
    table = written(patients(), folder / "train.csv")
    done = call("fit", table, *ROLES, *FEW, "--out", folder / "model", "--html", folder / "fit.html")
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def model(fitted, folder):  # noqa: ARG001 - the model must be there
    return folder / "model"


@pytest.fixture
def new(tmp_path):
    return written(patients(400, 3, seed=1, first_ward=100), tmp_path / "new.csv")


@pytest.fixture
def train(tmp_path):
    return written(patients(300, 6), tmp_path / "train.csv")


# Fitting


def test_fit_says_what_it_takes_each_column_for(fitted):
    assert without_progress(fitted.stderr)[:7] == [
        "numbers: age, pressure",
        "booleans: smoker",
        "dates: admitted",
        "categories: colour",
        "ignored, since almost every row has another text: visit",
        "Promising that all labels of a new domain are at target with probability 0.9 "
        "(--domain-confidence none for no promise); labels are scored by the mean of a network and boosting.",
        "Evaluating on 3 of 12 domains that the model has not seen.",
    ]


def test_fit_says_where_the_model_is_and_what_to_do_next(fitted, model):
    page, final, promise, *_, where = without_progress(fitted.stderr)[7:]
    assert promise.startswith(
        "Promise: In a new domain drawn like the 12 that calibrated, every label with at least 20"
    )
    assert [page, final, where] == [
        f"The page is {(model.parent / 'fit.html').as_uri()}",
        "Fitting the final model on all domains: 12.",
        f"The model is in {model}. Next: domaincover predict '{model}' TABLE --domain ward --out sets.parquet",
    ]


def test_fit_prints_unseen_domains_worst_first_beside_erm(fitted):
    verdict, head, names, *rows = fitted.stdout.splitlines()[:6]
    assert verdict.startswith("Promised 0.9, seen ")
    assert "Fixed" in head
    assert "ERM" in head
    assert " ".join(names.split()) == "Domain n recall of label ill mild well of 3 lot min recall min recall"
    min_recalls = [float(row.replace("▼", " ").split()[3]) for row in rows]
    assert len(min_recalls) == 3
    assert min_recalls == sorted(min_recalls)


def test_fit_prints_a_summary_and_why_one_label_fails(fitted):
    assert "ERM, promised, adapted" in fitted.stdout
    assert "unseen domains every label's recall is at least 90 %" in fitted.stdout
    assert "a single-label model (ERM) does so in" in fitted.stdout
    assert "on new rows of seen domains" in fitted.stdout.splitlines()[-2]
    assert fitted.stdout.splitlines()[-1].startswith("Promise of the model evaluated here: In a new domain drawn like")


def test_without_a_terminal_there_are_no_colours_and_no_bar(fitted):
    assert "\x1b" not in fitted.stdout + fitted.stderr


def test_fit_writes_the_page_of_the_evaluation(fitted, model):
    page = (model.parent / "fit.html").read_text()
    assert "Prediction sets for outcome, by ward" in page
    assert fitted.stdout.splitlines()[-1].split(":")[0] in page


def test_the_model_keeps_its_settings_and_its_evaluation(model):
    extra = load_extra(model)
    assert extra["settings"] == {
        "label": "outcome",
        "domain": "ward",
        "method": "erm-joint",
        "base": "mlp+boosting",
        "target_recall": 0.9,
        "hold_out_domains": 0.25,
        "min_cell_size": 20,
        "seed": 0,
        "domain_confidence": 0.9,
        "calibration": "cross-fit",
    }
    assert extra["assessment"]["unseen"]["model"]["summary"]["n_domains"] == 3
    assert load(model).domains_.tolist() == sorted(patients()["ward"].unique())


def test_the_same_seed_gives_the_same_sets_in_another_process_evaluated_or_not(model, folder):
    done = call("fit", folder / "train.csv", *ROLES, *FEW, "--hold-out-domains", "0", "--out", folder / "again")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    X = patients(500, seed=2)[load(model).feature_names_in_]
    assert np.array_equal(load(model).label_scores(X), load(folder / "again").label_scores(X))


def test_another_seed_gives_another_model(here, train, tmp_path):
    for seed in (1, 2):
        assert here("fit", train, *QUICK, "--seed", seed, "--out", tmp_path / f"{seed}")[0] == 0
    X = patients(300, 6).drop(columns=["ward", "outcome"])
    first, second = (load(tmp_path / name).label_scores(X) for name in "12")
    assert not np.array_equal(first, second)


COMBINATIONS = [
    (method, base)
    for method in ("set-cover", "robust", "pooled", "erm")
    for base in ("mlp", "linear", "boosting")
    if (method, base) != ("set-cover", "boosting")
]
COMBINATIONS += [("vrex", "linear"), ("coral", "mlp")]
DAILY = [("set-cover", "linear"), ("robust", "boosting"), ("pooled", "linear"), ("coral", "mlp")]


@pytest.mark.parametrize(
    ("method", "base"), [pytest.param(*each, marks=[] if each in DAILY else pytest.mark.deep) for each in COMBINATIONS]
)
def test_every_method_goes_with_every_base_but_one(here, tmp_path, method, base):
    train = written(patients(300, 6), tmp_path / "train.csv")
    out = tmp_path / "model"
    few = [] if base == "boosting" else ["--epochs", 5]
    options = ["--method", method, "--base", base, "--hold-out-domains", 0, *few]
    done = here("fit", train, *ROLES, *options, "--out", out)
    assert done[0] == 0, done
    code, printed, told = here("predict", out, train, "--out", tmp_path / "sets.csv")
    assert (code, printed) == (0, "")
    assert f"\n300 sets are in {tmp_path}/sets.csv.\n" in told
    sizes = pd.read_csv(tmp_path / "sets.csv")["set_size"]
    assert sizes.eq(1).all() if method in ("erm", "vrex", "coral") else sizes.mean() < 3
    assert load_extra(out)["assessment"] is None


@pytest.mark.parametrize("method", ["set-cover", "irm"])
def test_methods_that_train_a_network_refuse_boosting(refused, train, tmp_path, method):
    message = f"{method} trains a network; boosting goes with robust, pooled or erm"
    refused(message, "fit", train, *ROLES, "--method", method, "--base", "boosting", "--out", tmp_path / "model")


def test_features_of_a_linear_network_cannot_be_compared(here, train, tmp_path):
    more = ["--method", "mmd", "--base", "linear", "--hold-out-domains", 0]
    code, _, told = here("fit", train, *ROLES, *more, "--out", tmp_path / "model")
    assert code == 2
    assert told.splitlines()[-1].startswith("domaincover: MMD and CORAL compare learned features, and")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(("method", "names"), [("robust", ["Robust conformal", "ERM"]), ("erm", ["ERM"])])
def test_what_makes_no_sets_stands_beside_what_does(here, train, tmp_path, method, names):
    options = ["--method", method, "--base", "boosting", "--out", tmp_path / "model"]
    code, printed, _ = here("fit", train, *ROLES, *options)
    assert code == 0
    summary = printed.split("\n\n")[1].split("at target:")[0].splitlines()[2:]
    assert [line.split("  ")[0].strip() for line in summary] == names


def test_a_dropped_column_is_not_learned_from_and_may_be_absent(here, train, tmp_path):
    model = tmp_path / "model"
    assert here("fit", train, *QUICK, "--drop", "age", "--drop", "colour", "--out", model)[0] == 0
    assert load(model).feature_names_in_.tolist() == ["visit", "pressure", "smoker", "admitted"]
    new = written(patients(50).drop(columns=["age", "colour", "ward", "outcome"]), tmp_path / "new.csv")
    assert here("predict", model, new, "--out", tmp_path / "sets.csv")[0] == 0


def test_no_final_fit_keeps_what_was_evaluated(here, train, tmp_path):
    options = [*ROLES, "--base", "linear", "--no-final-fit", "--min-cell-size", 1, "--out", tmp_path / "model"]
    code, _, told = here("fit", train, *options)
    assert code == 0
    assert "Fitting the final model" not in told
    unseen = {one["domain"] for one in load_extra(tmp_path / "model")["assessment"]["unseen"]["model"]["domains"]}
    assert len(unseen) == 2
    assert set(load(tmp_path / "model").domains_) == set(patients(300, 6)["ward"]) - unseen


def test_a_warning_is_told_in_a_line(here, tmp_path):
    table = patients(300, 6)
    table.loc[0, "outcome"] = "dead"
    train = written(table, tmp_path / "train.csv")
    code, _, told = here("fit", train, *QUICK, "--method", "robust", "--out", tmp_path / "model")
    assert code == 0
    assert "Note: no calibration cell holds enough examples of label(s) 'dead'; they will be in every set." in told
    assert "Warning" not in told


def test_an_older_model_is_replaced(here, train, tmp_path):
    for method in ("erm", "set-cover"):
        assert here("fit", train, *QUICK, "--method", method, "--out", tmp_path / "model")[0] == 0
    assert load_extra(tmp_path / "model")["settings"]["method"] == "set-cover"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "train.csv"]


def test_a_folder_with_other_things_is_refused_before_the_table_is_read(refused, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    refused("is not a model folder and is not empty", "fit", "there-is-no.csv", *ROLES, "--out", tmp_path)


def test_numbers_and_dates_can_be_labels_and_domains(here, tmp_path):
    table = patients(300, 6)
    days = pd.Timestamp("2026-01-01") + pd.to_timedelta(table["ward"].str[-1].astype(int), unit="D")
    table = table.assign(ward=days.astype("datetime64[ns]"), outcome=table["outcome"].map(LABELS.index))
    path = written(table, tmp_path / "t.parquet")
    assert here("fit", path, *QUICK, "--out", tmp_path / "model")[0] == 0
    records = json.loads(here("evaluate", tmp_path / "model", path, "--min-cell-size", 1, "--format", "json")[1])[
        "domains"
    ]
    assert [record["domain"] for record in records] == [f"2026-01-0{k + 1}" for k in range(1, 7)]
    assert list(records[0]["recall"]) == ["0", "1", "2"]


# Predicting


def sizes_told(path):
    return sizes_in_words(np.bincount(predicted(path)["set_size"]))


def predicted(path):
    return pd.read_csv(path, dtype={"visit": str}) if ".csv" in path.name else pd.read_parquet(path)


def test_predict_keeps_rows_and_ids_and_names_every_label(model, tmp_path, here):
    table = patients(400, 3, seed=1)
    table["visit"] = table["visit"].str[1:]  # whole numbers with zeros in front
    new = written(table, tmp_path / "new.csv")
    code, printed, told = here("predict", model, new, "--id", "visit", "--id", "ward", "--out", tmp_path / "sets.csv")
    assert (code, printed) == (0, "")
    assert told.splitlines() == [
        f"400 sets are in {tmp_path / 'sets.csv'}.",
        sizes_told(tmp_path / "sets.csv"),
        "Thresholds are fixed. With --domain COLUMN each domain's rows set its own: same promise, often smaller sets.",
    ]
    sets = predicted(tmp_path / "sets.csv")
    assert list(sets) == ["visit", "ward", "in_set[ill]", "in_set[mild]", "in_set[well]", "set", "set_size"]
    assert sets["visit"].tolist() == table["visit"].tolist()
    assert sets["ward"].tolist() == table["ward"].tolist()


def test_predict_writes_the_sets_of_the_model_as_flags_list_and_size(model, new, tmp_path, here):
    here("predict", model, new, "--out", tmp_path / "sets.csv")
    sets = predicted(tmp_path / "sets.csv")
    expected = load(model).predict_set(patients(400, 3, seed=1)[load(model).feature_names_in_])
    flags = sets[[f"in_set[{label}]" for label in LABELS]]
    assert np.array_equal(flags, expected)
    assert sets["set_size"].tolist() == expected.sum(axis=1).tolist()
    assert [json.loads(text) for text in sets["set"]] == to_label_lists(expected, LABELS)


def test_csv_and_parquet_agree_in_and_out(model, new, tmp_path, here):
    written(patients(400, 3, seed=1, first_ward=100), tmp_path / "new.parquet")
    shutil.copy(new, tmp_path / "plain.csv")
    pd.read_csv(new, dtype=str).to_csv(tmp_path / "new.csv.gz", index=False)
    tables = []
    for ending in (".csv", ".csv.gz", ".parquet"):
        out = tmp_path / f"sets{ending}"
        assert here("predict", model, tmp_path / f"new{ending}", "--id", "visit", "--out", out)[0] == 0
        found = predicted(out)
        as_text = ending != ".parquet"
        tables.append(found.assign(set=[json.loads(held) if as_text else list(held) for held in found["set"]]))
    for other in tables[1:]:
        pd.testing.assert_frame_equal(tables[0], other, check_dtype=False)


def test_an_empty_set_is_written_as_one(here, train, tmp_path):
    """A target so low that most labels are in no set."""
    assert here("fit", train, *QUICK, "--target-recall", "0.05", "--out", tmp_path / "model")[0] == 0
    here("predict", tmp_path / "model", train, "--out", tmp_path / "sets.csv")
    sets = predicted(tmp_path / "sets.csv")
    assert (sets["set_size"] == 0).any()
    assert set(sets["set"][sets["set_size"] == 0]) == {"[]"}


def test_new_categories_missing_values_and_another_order_of_columns_are_fine(model, tmp_path, here):
    table = patients(400, 3, seed=1)
    table.loc[::3, "colour"] = "violet"
    table.loc[::5, ["age", "pressure", "smoker", "admitted", "colour"]] = None
    new = written(table[list(table)[::-1]], tmp_path / "new.csv")
    assert here("predict", model, new, "--out", tmp_path / "sets.csv")[0] == 0
    expected = load(model).predict_set(table[load(model).feature_names_in_])
    assert predicted(tmp_path / "sets.csv")["set_size"].tolist() == expected.sum(axis=1).tolist()


def test_label_domain_and_ignored_columns_may_be_absent(model, new, tmp_path, here):
    few = written(pd.read_csv(new).drop(columns=["visit", "ward", "outcome"]), tmp_path / "few.csv")
    assert here("predict", model, few, "--out", tmp_path / "few-sets.csv")[0] == 0
    here("predict", model, new, "--out", tmp_path / "sets.csv")
    assert (tmp_path / "few-sets.csv").read_bytes() == (tmp_path / "sets.csv").read_bytes()


def test_a_feature_can_be_an_id_and_is_given_back_as_it_was_written(model, new, tmp_path, here):
    here("predict", model, new, "--id", "age", "--out", tmp_path / "with.csv")
    here("predict", model, new, "--out", tmp_path / "without.csv")
    given = pd.read_csv(tmp_path / "with.csv")
    pd.testing.assert_series_equal(given["age"], pd.read_csv(new)["age"])
    pd.testing.assert_frame_equal(given.drop(columns="age"), predicted(tmp_path / "without.csv"))


def test_rows_are_counted_across_blocks(model, tmp_path, refused, monkeypatch):
    monkeypatch.setattr(tables, "ROWS_AT_ONCE", 30)
    table = patients(100)
    table["age"] = table["age"].astype(object)
    table.loc[66, "age"] = "old"
    new = written(table, tmp_path / "new.csv")
    message = "column 'age' held numbers when the model was fitted, but holds 'old' at row 67"
    refused(message, "predict", model, new, "--out", tmp_path / "sets.csv")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--id", "vist"], "has no column 'vist' (--id); did you mean 'visit'?"),
        (["--id", "set"], "--id 'set' is also the name of a column that predict writes; rename it in"),
        (
            ["--out", "sets.txt"],
            "cannot write sets.txt: the extension must be .csv, .csv.gz, .tsv, .tsv.gz, .parquet or .pq",
        ),
        (["--out", "/dev/null/sets.csv"], "cannot write /dev/null/sets.csv"),
    ],
)
def test_what_predict_cannot_do_is_refused(model, tmp_path, refused, arguments, message):
    new = written(patients(50).assign(set=1), tmp_path / "new.csv")
    refused(message, "predict", model, new, "--out", tmp_path / "sets.csv", *arguments)


def test_the_table_itself_is_not_written_over(model, new, refused):
    message = "would overwrite the input table"
    refused(f"--out {message}", "predict", model, new, "--out", new.parent / "." / new.name)
    refused(f"--html {message}", "evaluate", model, new, "--html", new)
    refused(f"--html {message}", "fit", new, *ROLES, "--out", new.parent / "model", "--html", new)


def test_a_column_that_the_model_needs_is_missed_by_name(model, tmp_path, refused):
    new = written(patients(50).rename(columns={"pressure": "Presure"}), tmp_path / "new.csv")
    message = "has no column 'pressure' (the model was fitted with it); did you mean 'Presure'?"
    refused(message, "predict", model, new, "--out", tmp_path / "sets.csv")


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_a_damaged_model_is_refused(model, new, tmp_path, refused, command):
    damaged = shutil.copytree(model, tmp_path / "damaged")
    part = min(damaged.glob("*.safetensors"))
    content = part.read_bytes()
    part.write_bytes(flipped(content, len(content) - 1))
    out = ["--out", tmp_path / "sets.csv"] if command == "predict" else []
    refused(f"{part} is corrupt: its checksum differs", command, damaged, new, *out)


def test_a_model_that_is_not_there_is_refused(new, tmp_path, refused):
    refused("none does not exist", "predict", tmp_path / "none", new, "--out", tmp_path / "sets.csv")


def test_a_model_of_arrays_is_refused(new, tmp_path, refused):
    from domaincover import ERMClassifier

    table = patients(60, 2)
    ERMClassifier(epochs=1).fit(table[["pressure"]].to_numpy(), table["outcome"]).save(tmp_path / "model")
    message = "the model was fitted on an array without column names; use it from Python"
    refused(message, "predict", tmp_path / "model", new, "--out", tmp_path / "sets.csv")


# Evaluating


def refuse_constant(name):
    raise AssertionError(f"{name} is not JSON")


OF_EVALUATION = ("model_sha256", "min_cell_size", "thresholds", "sets_by_size")


def test_evaluation_as_json_has_a_summary_and_a_record_per_domain(model, new, here):
    code, printed, told = here("evaluate", model, new, "--format", "json")
    assert (code, told) == (0, "")
    found = json.loads(printed, parse_constant=refuse_constant)
    assert list(found) == ["verdict", "summary", *OF_EVALUATION, "adapted", "fixed", "domains"]
    assert {"n_domains", "min_recall", "set_size", "share_at_target", "target_recall"} < set(found["summary"])
    assert [record["domain"] for record in found["domains"]] == ["ward 100", "ward 101", "ward 102"]
    assert {"domain", "n", "min_recall", "set_size", "recall"} < set(found["domains"][0])
    for record in found["domains"]:
        assert list(record["recall"]) == LABELS
        assert record["min_recall"] == min(record["recall"].values())


def test_the_summary_is_of_the_domains(model, new, here):
    found = json.loads(here("evaluate", model, new, "--format", "json")[1])
    min_recalls, sizes = ([record[name] for record in found["domains"]] for name in ("min_recall", "set_size"))
    assert found["summary"]["n_domains"] == 3
    assert found["summary"]["min_recall"] == np.median(min_recalls)
    assert found["summary"]["set_size"] == np.median(sizes)
    assert found["summary"]["share_at_target"] == np.mean(np.array(min_recalls) >= 0.9)
    assert found["summary"]["target_recall"] == 0.9
    assert sum(record["n"] for record in found["domains"]) == 400


def test_the_recalls_are_those_of_the_sets(model, new, tmp_path, here):
    here("predict", model, new, "--id", "ward", "--id", "outcome", "--out", tmp_path / "sets.csv")
    sets = predicted(tmp_path / "sets.csv")
    hit = [row[f"in_set[{row['outcome']}]"] for _, row in sets.iterrows()]
    expected = pd.Series(hit).groupby([sets["ward"], sets["outcome"]]).mean()
    options = ["--thresholds", "fixed", "--format", "json"]
    for record in json.loads(here("evaluate", model, new, *options)[1])["domains"]:
        assert record["recall"] == expected[record["domain"]].to_dict()


def test_cells_of_the_smallest_size_count_and_smaller_ones_are_null(model, tmp_path, here):
    table = patients(600, 1)
    few, enough = table[table["outcome"] == "ill"][:29], table[table["outcome"] == "well"][:30]
    new = written(pd.concat([few, enough]), tmp_path / "new.csv")
    printed = here("evaluate", model, new, "--format", "json", "--min-cell-size", 30)[1]
    (record,) = json.loads(printed, parse_constant=refuse_constant)["domains"]
    assert record["recall"]["ill"] is None
    assert record["recall"]["mild"] is None
    assert record["recall"]["well"] == record["min_recall"]
    assert record["n"] == 59


def test_evaluation_as_a_table_is_worst_first_with_a_page(model, new, tmp_path, here):
    code, printed, told = here("evaluate", model, new, "--html", tmp_path / "page.html")
    assert (code, told) == (0, f"The page is {(tmp_path / 'page.html').as_uri()}\n")
    rows = [line for line in printed.splitlines() if line.startswith("ward 1")]
    min_recalls = [float(row.replace("▼", " ").split()[3]) for row in rows]
    assert len(min_recalls) == 3
    assert min_recalls == sorted(min_recalls)
    assert "When the model was fitted: " in printed.splitlines()[-1]
    assert "ward 101" in (tmp_path / "page.html").read_text()


def test_domains_that_training_had_are_told(model, folder, here):
    assert "12 of 12 domains were in the training data;" in here("evaluate", model, folder / "train.csv")[1]


def test_label_and_domain_columns_may_have_other_names(model, new, tmp_path, here):
    other = pd.read_csv(new).rename(columns={"outcome": "truth", "ward": "place"})
    renamed = written(other, tmp_path / "renamed.csv")
    options = ["--label", "truth", "--domain", "place", "--format", "json"]
    assert here("evaluate", model, renamed, *options) == here("evaluate", model, new, "--format", "json")


def test_names_with_markup_are_shown_as_they_are_and_escaped_in_the_page(model, tmp_path, here):
    wards = {"ward 1": "<b>north</b>", "ward 2": "[red]south", "ward 3": "{{ 7 * 7 }} & east"}
    table = patients(300, 3)
    new = written(table.assign(ward=table["ward"].map(wards)), tmp_path / "new.csv")
    code, printed, _ = here("evaluate", model, new, "--html", tmp_path / "page.html")
    assert code == 0
    assert all(name in printed for name in wards.values())
    page = (tmp_path / "page.html").read_text()
    assert "<b>north" not in page
    for escaped in ("&lt;b&gt;north&lt;/b&gt;", "[red]south", "{{ 7 * 7 }} &amp; east"):
        assert escaped in page


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (
            "outcome",
            "dead",
            "(--label) holds 'dead' in row 4, a label that the model does not know; it knows '",
        ),
        ("outcome", None, "column 'outcome' (--label) is empty in 1 of 400 rows, first in row 4; drop those rows"),
        ("ward", None, "column 'ward' (--domain) is empty in 1 of 400 rows, first in row 4; drop those rows or give"),
        ("pressure", "high", "column 'pressure' held numbers when the model was fitted, but holds 'high' at row 4"),
        (
            "admitted",
            "soon",
            "column 'admitted' held dates when the model was fitted, but holds 'soon' at row 4; dates",
        ),
    ],
)
def test_a_bad_value_is_told_with_its_column_and_row(model, new, tmp_path, refused, column, value, message):
    table = pd.read_csv(new, dtype=str)
    table.loc[3, column] = value
    refused(message, "evaluate", model, written(table, tmp_path / "bad.csv"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--label", "outcom"], "has no column 'outcom' (--label); did you mean 'outcome'?"),
        (["--domain", "outcome"], "--label and --domain are both 'outcome'; they must be two columns"),
        (["--min-cell-size", "500"], "no label has 500 examples in a domain (at most"),
        (["--min-cell-size", "0"], "'--min-cell-size'"),
        (["--html", "/dev/null/page.html"], "cannot write the page /dev/null/page.html: /dev/null is not a folder"),
        (["--html", "/dev"], "cannot write the page /dev: /dev is a folder"),
    ],
)
def test_what_evaluate_cannot_do_is_refused(model, new, refused, arguments, message):
    refused(message, "evaluate", model, new, *arguments)


def test_a_model_saved_from_python_wants_the_columns_named(new, tmp_path, here, refused):
    from domaincover import ERMClassifier

    table = patients(60, 2)
    ERMClassifier(epochs=1).fit(table[["pressure"]], table["outcome"]).save(tmp_path / "model")
    refused("does not record its label and domain columns; give --label", "evaluate", tmp_path / "model", new)
    assert here("evaluate", tmp_path / "model", new, *ROLES)[0] == 0


# What fit refuses


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--hold-out-domains", "1"], "--hold-out-domains is a share of the domains, from 0 to below 1, got 1"),
        (["--hold-out-domains", "-0.1"], "--hold-out-domains is a share of the domains, from 0 to below 1, got -0.1"),
        (["--target-recall", "90"], "target recall must lie between 0 and 1, got 90; write 90 % as 0.9"),
        (["--method", "erm", "--target-recall", "0"], "target recall must lie between 0 and 1, got 0"),
        (["--seed", "-1"], "'--seed'"),
        (["--seed", "4294967296"], "'--seed'"),
        (["--method", "cover"], "'cover' is not one of 'set-cover', 'robust', 'pooled', 'erm'"),
        (["--label", "Outcom"], "has no column 'Outcom' (--label); did you mean 'outcome'?"),
        (["--domain", "hospital"], "has no column 'hospital' (--domain); its columns are visit, age, pressure"),
        (["--drop", "agee"], "has no column 'agee' (--drop); did you mean 'age'?"),
        (["--label", "ward"], "--label and --domain are both 'ward'; they must be two columns"),
        (["--label", "visit"], "column 'visit' (--label) has 300 different values; labels are classes, at most 200"),
        (["--label", "age"], "column 'age' (--label) is empty in"),
        (["--domain", "visit"], "has 300 different values in 300 rows; a domain is a group of many rows"),
        (["--no-final-fit", "--hold-out-domains", "0"], "--no-final-fit keeps the evaluated model, but"),
        (["--html", "page.html", "--hold-out-domains", "0"], "--html shows the evaluation, but --hold-out-domains 0"),
        (["--html", "/dev/null/page.html"], "cannot write the page /dev/null/page.html"),
        (["--out", "/dev/null/model"], "cannot write /dev/null/model: /dev/null is not a writable folder"),
    ],
)
def test_what_fit_cannot_do_is_refused(train, tmp_path, refused, arguments, message):
    refused(message, "fit", train, *ROLES, "--out", tmp_path / "model", *arguments)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"outcome": "ill"}, "column 'outcome' (--label) has one value only, 'ill'; sets need two labels"),
        ({"outcome": [0.5, 1.5] * 150}, "column 'outcome' (--label) holds numbers such as 0.5; labels are classes"),
        ({"outcome": ["ill", "well", None] * 100}, "(--label) is empty in 100 of 300 rows, first in row 3; drop"),
        ({"ward": [None, *["north", "south"] * 149, None]}, "(--domain) is empty in 2 of 300 rows, first in row 1"),
        ({"ward": "north"}, "column 'ward' (--domain) has one value only, 'north'; an evaluation on unseen domains"),
    ],
)
def test_columns_that_cannot_be_label_or_domain_are_refused(tmp_path, refused, changes, message):
    train = written(patients(300, 6).assign(**changes), tmp_path / "train.csv")
    refused(message, "fit", train, *ROLES, "--out", tmp_path / "model")


def test_one_domain_is_enough_without_an_evaluation(here, tmp_path):
    train = written(patients(300, 6).assign(ward="north"), tmp_path / "train.csv")
    assert here("fit", train, *QUICK, "--out", tmp_path / "model")[0] == 0


def test_a_table_without_features_is_refused(train, tmp_path, refused):
    few = written(pd.read_csv(train)[["ward", "outcome"]], tmp_path / "few.csv")
    refused("has no columns left to learn from beside", "fit", few, *ROLES, "--out", tmp_path / "model")


def test_a_table_of_keys_is_refused(train, tmp_path, refused):
    keys = written(pd.read_csv(train)[["visit", "ward", "outcome"]], tmp_path / "keys.csv")
    refused("no column can be learned from", "fit", keys, *ROLES, "--out", tmp_path / "model")


def test_too_large_a_smallest_cell_is_refused_before_fitting(train, tmp_path, here):
    code, printed, told = here("fit", train, *ROLES, "--min-cell-size", 999, "--out", tmp_path / "model")
    assert (code, printed) == (2, "")
    assert "no label has 999 examples in a domain (at most" in told.splitlines()[-1]


def test_a_refusal_is_one_line_from_a_process_too(train, tmp_path):
    done = call("fit", train, "--label", "outcom", "--domain", "ward", "--out", tmp_path / "model")
    message = f"domaincover: {train} has no column 'outcom' (--label); did you mean 'outcome'?\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", message)


# Promises


def test_fit_with_a_confidence_says_what_it_promises_and_evaluates_it(here, tmp_path):
    table, out = written(patients(1200, 16), tmp_path / "train.csv"), tmp_path / "model"
    promise = ["--domain-confidence", "0.8", "--base", "linear", "--method", "erm", "--epochs", 5]
    code, printed, told = here("fit", table, *ROLES, *promise, "--out", out)
    assert code == 0, told
    assert "ERM, promised, adapted" in printed
    assert "Promise of the model evaluated here: In a new domain drawn like the 12 that calibrated" in printed
    assert "Promise: In a new domain drawn like the 16 that calibrated, every label with at least 20 examples" in told
    assert "cross-fitted, so this is expected but not proved" in told
    assert load(out).domain_confidence == 0.8
    new = written(patients(800, 9, seed=3, first_ward=100), tmp_path / "new.csv")
    assert "Promise of the model: In a new domain" in here("evaluate", out, new)[1]
    assert here("predict", out, new, "--out", tmp_path / "sets.parquet")[0] == 0


@pytest.mark.parametrize(("calibration", "n_wards"), [("held-out-domains", 12), ("jackknife-minmax", 4)])
def test_the_exact_ways_say_nothing_of_not_being_proved(here, tmp_path, calibration, n_wards):
    table = written(patients(75 * n_wards, n_wards), tmp_path / "train.csv")
    options = [*QUICK, "--domain-confidence", "0.7", "--calibration", calibration, "--method", "erm"]
    code, _, told = here("fit", table, *options, "--out", tmp_path / "model")
    assert code == 0, told
    assert "with probability 0.7 or more." in told
    assert "proved" not in told


def test_a_confidence_beyond_the_domains_is_refused_before_training(refused, tmp_path):
    train = written(patients(900, 6), tmp_path / "train.csv")
    message = "--domain-confidence 0.9 takes 9 domains, and there are 6; the most that 6 allow is 0.857"
    refused(message, "fit", train, *QUICK, "--domain-confidence", "0.9", "--out", tmp_path / "model")
    message = "there are 6, 2 of which are held out to evaluate (--hold-out-domains); the most that 4 allow is 0.8"
    refused(message, "fit", train, *ROLES, "--domain-confidence", "0.9", "--out", tmp_path / "model")


def test_a_confidence_beyond_the_domains_may_widen_the_sets(here, new, tmp_path):
    train = written(patients(900, 6), tmp_path / "train.csv")
    options = [*QUICK, "--domain-confidence", "0.9", "--on-infeasible", "widen", "--out", tmp_path / "model"]
    code, _, told = here("fit", train, *options)
    assert code == 0
    assert "Note: a domain confidence of 0.9 takes 9 calibration domains" in told
    assert here("predict", tmp_path / "model", new, "--out", tmp_path / "sets.csv")[0] == 0
    assert pd.read_csv(tmp_path / "sets.csv")["set_size"].eq(3).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--domain-confidence", "95"], "--domain-confidence must lie between 0 and 1, got 95; write 95 % as 0.95"),
        (["--domain-confidence", "1"], "--domain-confidence must lie between 0 and 1, got 1"),
        (
            ["--domain-confidence", "0.8", "--method", "robust"],
            "--method robust calibrates by another rule and takes no --domain-confidence; --method set-cover or erm",
        ),
        (
            ["--domain-confidence", "0.8", "--method", "robust", "--base", "boosting"],
            "--method erm makes the promise with --base boosting, or leave --domain-confidence out",
        ),
        (
            ["--method", "robust", "--base", "boosting", "--epochs", "2"],
            "--base boosting trains no network, so --epochs 2 would have no effect; leave it out",
        ),
        (["--calibration", "jackknife-minmax"], "--domain-confidence 0.9 takes 9 domains, and there are 6"),
        (["--domain-confidence", "none", "--calibration", "cross-fit"], "--calibration is about a promise, but"),
        (["--domain-confidence", "none", "--on-infeasible", "widen"], "--on-infeasible is about a promise, but"),
        (["--domain-confidence", "high"], "--domain-confidence must be a number below 1, or none, got 'high'"),
        (
            ["--domain-confidence", "0.84", "--calibration", "held-out-domains"],
            "takes 6 domains beside one to train on, and there are 6; the most that 5 allow is 0.833",
        ),
    ],
)
def test_promises_that_cannot_be_are_refused(refused, train, tmp_path, options, message):
    refused(message, "fit", train, *QUICK, *options, "--out", tmp_path / "model")


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_a_model_whose_numbers_do_not_fit_each_other_is_told_in_one_line(model, new, tmp_path, refused, command):
    shutil.copytree(model, tmp_path / "forged")

    def five_thresholds(content):
        content["parts"][-1]["learned"]["thresholds_"]["array"] |= {"shape": [5], "items": [0.0] * 5}

    forge(tmp_path / "forged", five_thresholds)
    options = ["--out", tmp_path / "sets.csv"] if command == "predict" else []
    refused("has not one threshold for each label", command, tmp_path / "forged", new, *options)
