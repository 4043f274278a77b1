from docs.tools.theory_pictures import (
    FOUR,
    disc_chart,
    disc_picture_data,
    window_chart,
    window_picture_data,
    write_theory_pictures,
)
from tests.paper.theory.gaussian_shattering import could_be_reached


def test_each_window_of_the_picture_is_at_target_in_the_domains_it_is_named_for():
    data = window_picture_data(3)
    reached = data.reached[data.reached["at_target"]].groupby("row")["domain"].agg(", ".join)
    assert len(data.windows) == 8
    assert all(row == f"window for {domains}" for row, domains in reached.items())
    assert "window for none" not in reached.index


def test_the_assignment_drawn_for_four_discs_is_impossible():
    data = disc_picture_data(FOUR)
    assert not could_be_reached(FOUR, 0.9, data.discs["asked"].to_numpy())
    assert list(data.discs["asked"]) == [True, True, True, False]
    assert data.lines.empty


def test_pictures_are_drawn(tmp_path):
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in write_theory_pictures(tmp_path))
    assert "d + 2 never" in disc_chart().to_dict()["title"]["text"]
    assert "Eight windows" in window_chart(window_picture_data()).to_dict()["title"]["text"]
