"""Store scikit-learn estimators as skops files in which only trusted types are constructed."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from zipfile import ZIP_STORED, ZipFile

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.neighbors import BallTree, KDTree

from domaincover.errors import InputError, one_line


@contextmanager
def _without(*packages: str) -> Iterator[None]:
    """Make packages that are not loaded yet seem absent for a while."""
    absent = [name for name in packages if name not in sys.modules]
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type] # with None, an import raises ImportError
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


SPARSE = (sparse.csc_array, sparse.csc_matrix, sparse.csr_array, sparse.csr_matrix)  # no other kind is trusted

# skops asks for all of scikit-learn's estimators, and the search for them also loads adapters to these libraries.
with _without("torch", "dask", "cupy"):
    import skops.io

# Types within scikit-learn's classifiers that skops does not trust by default. A file can call each of them with any
# arguments or set any attributes, so they must only store data; `_check_loaded` validates those that compiled code
# uses without bounds checks. Decision trees are not among them: classifiers of trees are saved as arrays. Before adding
# a type, read its constructor, __new__ and __setstate__ assuming hostile arguments: none may call, import or open what
# it is given.
TRUSTED = frozenset(
    (
        "domaincover.data.encoding.Categories",
        "domaincover.data.encoding.TableEncoder",
        "numpy.dtype",
        "scipy.sparse._csc.csc_array",
        "scipy.sparse._csc.csc_matrix",
        "scipy.sparse._csr.csr_array",
        "scipy.sparse._csr.csr_matrix",
        "sklearn.calibration._CalibratedClassifier",
        "sklearn.calibration._SigmoidCalibration",
        "sklearn.calibration._TemperatureScaling",
        "sklearn.compose._column_transformer.make_column_selector",
        "sklearn.feature_selection._univariate_selection.chi2",
        "sklearn.feature_selection._univariate_selection.f_classif",
        "sklearn.metrics._dist_metrics.ChebyshevDistance64",
        "sklearn.metrics._dist_metrics.EuclideanDistance64",
        "sklearn.metrics._dist_metrics.ManhattanDistance64",
        "sklearn.metrics._dist_metrics.MinkowskiDistance64",
        "sklearn.metrics._scorer._PassthroughScorer",
        "sklearn.model_selection._split.KFold",
        "sklearn.model_selection._split.StratifiedKFold",
        "sklearn.multiclass._ConstantPredictor",
        "sklearn.neighbors._ball_tree.BallTree",
        "sklearn.neighbors._kd_tree.KDTree",
        "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
        "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    )
)


def to_skops(model: BaseEstimator, trusted: Iterable[str]) -> bytes:
    """Return an estimator as a skops file, after verifying that `from_skops` can load it."""
    name = type(model).__name__
    try:
        written: bytes = skops.io.dumps(model)
    except Exception as error:  # skops calls methods of arbitrary objects
        raise InputError(f"this {name} cannot be saved: {one_line(error)}") from error
    unknown = untrusted_types(written, trusted)
    if unknown:
        raise InputError(
            f"this {name} contains a {unknown[0]!r}, which is not a trusted type; if constructing it is safe, "
            f"pass trusted={unknown} to save and to load."
        )
    try:
        _constructed(written, trusted)
    except Exception as error:
        raise InputError(f"this {name} cannot be saved because it could not be loaded: {one_line(error)}") from error
    return written


def from_skops(written: bytes, trusted: Iterable[str], where: str) -> BaseEstimator:
    """Return the estimator in a skops file; raise if the file contains an untrusted type."""
    unknown = untrusted_types(written, trusted)
    if unknown:
        raise InputError(
            f"{where} contains a {unknown[0]!r}, which is not a trusted type; only if you trust its author, "
            f"pass trusted={unknown} to load."
        )
    return _constructed(written, trusted)


def untrusted_types(written: bytes, trusted: Iterable[str]) -> list[str]:
    """Return the types in a skops file that neither domaincover nor the caller trusts, without constructing any."""
    _check_archive(written)
    return sorted(set(skops.io.get_untrusted_types(data=written)) - TRUSTED - set(trusted))


def _constructed(written: bytes, trusted: Iterable[str]) -> BaseEstimator:
    model = skops.io.loads(written, trusted=[*TRUSTED, *trusted])
    if not isinstance(model, BaseEstimator):
        raise InputError(f"a {type(model).__name__} is not an estimator.")
    _check_loaded(model)
    return model


def _check_loaded(model: Any) -> None:
    """Check what compiled code would follow: sparse matrices; search trees are built again from their data."""
    waiting, seen = [model], dict[int, Any]()
    while waiting:
        item: Any = waiting.pop()
        if id(item) in seen or isinstance(item, str | bytes | int | float | type):
            continue
        seen[id(item)] = item  # a reference, so that the id is not reused
        waiting += [*(item.keys() if isinstance(item, dict) else ()), *getattr(item, "__dict__", {}).values()]
        waiting += item.values() if isinstance(item, dict) else item if isinstance(item, list | tuple | set) else ()
        if isinstance(item, np.ndarray) and item.dtype == object:
            waiting += np.asarray(item).ravel().tolist()  # including masked entries
        if isinstance(item, KDTree | BallTree):
            data, _, _, _, leaf_size, *_, metric, weight = item.__getstate__()
            item.__setstate__(type(item)(data, leaf_size, metric, weight).__getstate__())
        if isinstance(item, SPARSE):
            item.check_format(full_check=True)


def _check_archive(written: bytes) -> None:
    """Reject decompression bombs: compressed entries, and objects that refer to each other recursively."""
    with ZipFile(io.BytesIO(written)) as archive:
        if any(entry.compress_type != ZIP_STORED for entry in archive.infolist()):
            raise InputError("the skops file is compressed; skops files of models are not.")
        _count(json.loads(archive.read("schema.json")), {})


def _count(value: Any, seen: dict[Any, int]) -> int:
    """Count the values in JSON; skops repeats an object in full at every reference, so its count never changes."""
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    count = 1 + sum(_count(child, seen) for child in children)
    if isinstance(value, dict) and "__id__" in value and seen.setdefault(value["__id__"], count) != count:
        raise InputError("the skops file contains two different objects with one id.")
    return count
