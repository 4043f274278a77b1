import numpy as np
import pandas as pd
import pytest

from domaincover.errors import InputError
from domaincover.paper.catalogue import CATALOGUE
from domaincover.paper.real.released_tables import LABEL_OF, read_windows
from tests.paper.real.released_folders import SHARED, WISDM_FEATURES, arff_text, build_wisdm

DATA = CATALOGUE["wisdm"]
PREPARED = SHARED / "wisdm51_watch.parquet"


def test_activities_become_groups_and_persons_domains(tmp_path):
    X, y, domains = DATA.read(build_wisdm(tmp_path))
    assert [*X.columns] == WISDM_FEATURES
    assert y.tolist() == ["locomotion", "still", "hand", "eating", "ball", "hand"] * 2
    assert domains.tolist() == ["1600"] * 6 + ["1601"] * 6
    assert X["X1"].tolist() == [0, 1, 2, 3, 4, 5] * 2
    assert np.allclose(X["XAVG"], -1e-3)


def test_every_activity_of_the_release_is_in_one_group():
    assert "".join(sorted(LABEL_OF)) == "ABCDEFGHIJKLMOPQRS"  # there is no N


@pytest.mark.parametrize(
    "given", [".", "wisdm-dataset", "wisdm-dataset/arff_files", "wisdm-dataset/arff_files/watch/accel"]
)
def test_the_release_is_found_at_any_of_its_levels(tmp_path, given):
    place = build_wisdm(tmp_path)
    assert DATA.find(tmp_path / given).samefile(place)


def test_a_question_mark_is_a_missing_value_and_comments_are_skipped(tmp_path):
    path = tmp_path / "data_1600_accel_watch.arff"
    text = arff_text("1600", [("A", "?", 1, 2, 3), ("B", 4, 5, 6, 7)])
    path.write_text(text.replace("@data\n", "@DATA\n% a comment\n") + "\n\n")
    windows = read_windows(path, "1600")
    assert np.isnan(windows.X.iloc[0, 0])
    assert windows.X.iloc[1].tolist() == [4, 5, 6, 7]


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        (("A", 1, 2, 3), "has 5 fields, its header 6"),
        (("A", 1, 2, 3, 4, 5), "has 7 fields, its header 6"),
        (("N", 1, 2, 3, 4), "ACTIVITY is 'N', which is none of"),
        (("A", 1, "two", 3, 4), "X1 is 'two', which is not a number"),
        (("A", 1, "", 3, 4), "X1 is '', which is not a number"),
        (("A", 1, "inf", 3, 4), "X1 is 'inf', which is not a number"),
        (("A", 1, "nan", 3, 4), "X1 is 'nan', which is not a number"),
    ],
)
def test_a_faulty_line_is_named(tmp_path, row, fault):
    place = build_wisdm(tmp_path)
    path = place / "data_1601_accel_watch.arff"
    text = arff_text("1601", [("B", 1, 2, 3, 4), row, ("C", 5, 6, 7, 8)])
    path.write_text(text)
    line = text.splitlines().index('B,1,2,3,4,"1601"') + 2  # the one after it; lines count from 1
    with pytest.raises(InputError, match=rf"1601_accel_watch\.arff:{line}.*{fault}"):
        DATA.read(place)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not an ARFF file with the attributes ACTIVITY and class, and @data"),
        ("A,1,2,3\n", "is not an ARFF file"),
        (arff_text("1601", []), "has no window of person 1601"),
        (arff_text("1600", [("A", 1, 2, 3, 4)]), "class is '1600' in the file of person 1601"),
        (arff_text("1601", [("A", 1)], ["X0"]), "has other features than the files before it"),
    ],
)
def test_a_faulty_file_is_named(tmp_path, text, message):
    place = build_wisdm(tmp_path)
    (place / "data_1601_accel_watch.arff").write_text(text)
    with pytest.raises(InputError, match=rf"data_1601_accel_watch\.arff.*{message}"):
        DATA.read(place)


@pytest.mark.skipif(not PREPARED.is_file(), reason="needs a prepared copy beside the project")
def test_the_prepared_copy_written_as_released_is_read_as_it_is(tmp_path):
    names = "walking jogging stairs sitting standing typing teeth soup chips pasta drinking sandwich kicking catch "
    letters = dict(zip((names + "dribbling writing clapping folding").split(), "ABCDEFGHIJKLMOPQRS", strict=True))
    rows = pd.read_parquet(PREPARED).query("domain in ['1600', '1650']").reset_index(drop=True)
    features = [name for name in rows.columns if name not in ("activity", "label", "domain")]
    assert len(features) == 91
    for person, own in rows.groupby("domain"):
        lines = [
            (letters[activity], *map(repr, map(float, values)))
            for activity, values in zip(own["activity"], own[features].to_numpy(), strict=True)
        ]
        (tmp_path / f"data_{person}_accel_watch.arff").write_text(arff_text(person, lines, features))
    X, y, domains = DATA.read(DATA.find(tmp_path))
    pd.testing.assert_frame_equal(X, rows[features])
    assert y.tolist() == rows["label"].tolist()
    assert domains.tolist() == rows["domain"].tolist()
