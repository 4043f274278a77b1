import numpy as np
import pytest
from PIL import Image

from domaincover.errors import InputError
from domaincover.paper.catalogue import CATALOGUE
from tests.paper.real.released_folders import SHARED, build_malaria

DATA = CATALOGUE["malaria"]
CELL = "C33P1thinF_IMG_20150619_114756a_cell_1.png"


def test_the_label_is_the_folder_and_the_domain_the_patient(tmp_path):
    X, y, domains = DATA.read(build_malaria(tmp_path))
    assert X.shape == (8, 40, 40)
    assert y.tolist() == ["parasitized"] * 4 + ["uninfected"] * 4
    assert sorted(set(zip(y.tolist(), domains.tolist(), strict=True))) == [
        ("parasitized", "C100"),
        ("parasitized", "C33"),
        ("uninfected", "C1"),
        ("uninfected", "C33"),
    ]
    assert X[y == "parasitized"].max() < 70 < 190 < X[y == "uninfected"].min()


def test_colours_become_grey_and_shrinking_averages(tmp_path):
    place = build_malaria(tmp_path)
    stripes = np.zeros((80, 80, 3), np.uint8)
    stripes[:, ::2] = 200
    Image.fromarray(stripes).save(place / "Parasitized" / CELL)
    Image.new("RGB", (60, 60), (255, 0, 0)).save(place / "Uninfected" / CELL)
    X, y, domains = DATA.read(place)
    cells = X[domains == "C33"]
    assert y[domains == "C33"].tolist() == ["parasitized", "parasitized", "uninfected", "uninfected"]
    assert np.abs(cells[1][:, 1:-1].astype(int) - 100).max() <= 3
    assert (cells[3] == 76).all()  # 0.299 of 255, as in ITU-R 601


@pytest.mark.parametrize("given", [".", "cell_images"])
def test_the_folder_or_its_parent_can_be_given(tmp_path, given):
    place = build_malaria(tmp_path)
    assert DATA.find(tmp_path / given) == place


def test_a_copy_with_every_image_twice_is_read_once(tmp_path):
    place = build_malaria(tmp_path)
    build_malaria(place)
    assert DATA.find(tmp_path) == place
    assert len(DATA.read(place).X) == 8


def cut(path):
    path.write_bytes(path.read_bytes()[:-30])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut, f"Uninfected/{CELL} cannot be decoded: truncated or corrupt"),
        (lambda path: path.write_bytes(b""), f"{CELL} cannot be decoded: the file is empty"),
        (lambda path: path.write_bytes(b"GIF9"), f"{CELL} cannot be decoded: not an image in a known format"),
        (lambda path: path.rename(path.with_name("cell.png")), r"cell\.png is not named as the cell of a patient"),
    ],
)
def test_a_faulty_image_is_named(tmp_path, damage, message):
    place = build_malaria(tmp_path)
    damage(place / "Uninfected" / CELL)
    with pytest.raises(InputError, match=message):
        DATA.read(place)


def test_a_folder_without_cells_is_a_fault(tmp_path):
    place = build_malaria(tmp_path)
    for path in (place / "Uninfected").glob("*.png"):
        path.unlink()
    with pytest.raises(InputError, match="Uninfected has no image of a cell"):
        DATA.read(place)


@pytest.mark.skipif(not (SHARED / "malaria.npz").is_file(), reason="needs a prepared copy beside the project")
def test_the_file_names_of_the_release_give_its_200_patients():
    from domaincover.paper.real.released_images import CELL as PATTERN

    with np.load(SHARED / "malaria.npz", allow_pickle=False) as file:
        names, domains = file["name"], file["domain"]
    patients = [PATTERN.fullmatch(name)[1] for name in names]
    assert patients == domains.tolist()
    assert len(set(patients)) == 200
