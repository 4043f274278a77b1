import pytest

from domaincover.errors import InputError
from domaincover.paper.catalogue import CATALOGUE
from domaincover.paper.real.released_tables import decoded
from tests.paper.real.released_folders import build_reviews

DATA = CATALOGUE["reviews"]


def test_training_and_test_files_are_read_and_unlabelled_texts_are_not(tmp_path):
    X, y, domains = DATA.read(build_reviews(tmp_path))
    assert X.tolist()[:6] == [
        "good books 0",
        "bad books 0",
        "good books 1",
        "bad books 1",
        "good books 0",
        "bad books 0",
    ]
    assert y.tolist() == ["pos", "neg"] * 6
    assert domains.tolist() == ["books"] * 6 + ["dvd"] * 6
    assert X.dtype == object


@pytest.mark.parametrize("inside", [".", "mtl-dataset", "man/data/fdu-mtl"])
def test_the_corpus_is_found_where_copies_have_it(tmp_path, inside):
    (tmp_path / inside).mkdir(parents=True, exist_ok=True)
    place = build_reviews(tmp_path / inside)
    assert DATA.find(tmp_path).samefile(place)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("café – “good”".encode(), "café – “good”"),
        ("café – “good”".encode("cp1252"), "café – “good”"),
        (b"caf\xe9 \x81", "café �"),  # Windows-1252 has no 0x81
        (b"one\x85two", "one…two"),
    ],
)
def test_utf_8_and_windows_1252_are_told_apart_line_by_line(tmp_path, text, read):
    assert decoded(text) == read
    build_reviews(tmp_path)
    (tmp_path / "dvd.task.test").write_bytes("1\tnaïve\n".encode() + b"0\t" + text + b"\n")
    assert DATA.read(tmp_path).X.tolist()[-2:] == ["naïve", read]


def test_an_empty_review_is_a_review(tmp_path):
    build_reviews(tmp_path)
    (tmp_path / "dvd.task.test").write_bytes(b"1\tfine\n0\t\n")
    assert DATA.read(tmp_path).X.tolist()[-2:] == ["fine", ""]


@pytest.mark.parametrize("line", ["2\tgood", "good", "1 good", "\tgood"])
def test_a_faulty_line_is_named(tmp_path, line):
    build_reviews(tmp_path)
    (tmp_path / "dvd.task.test").write_text(f"1\tfine\n{line}\n0\tbad\n")
    with pytest.raises(InputError, match=r"dvd\.task\.test:2 is not 0 or 1, a tab and a text, but starts with"):
        DATA.read(tmp_path)


def test_products_and_parts_that_are_absent_are_listed(tmp_path):
    build_reviews(tmp_path)
    (tmp_path / "dvd.task.test").unlink()
    missing = DATA.examine(tmp_path).missing
    assert len(missing) == 14 * 2 + 1
    assert "dvd.task.test" in missing
