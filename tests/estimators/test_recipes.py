import re

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier

from domaincover import ConformalSetClassifier, ERMClassifier, InputError, SetCoverClassifier, TableEncoder
from domaincover.estimators.recipes import make_classifier

METHODS, BASES = ("set-cover", "robust", "pooled", "erm"), ("mlp", "linear", "boosting", "mlp+boosting")
KINDS = {"set-cover": SetCoverClassifier, "robust": ConformalSetClassifier, "pooled": ConformalSetClassifier}
everything = pytest.mark.parametrize(
    ("method", "base"), [(m, b) for m in METHODS for b in BASES if m != "set-cover" or "boosting" not in b]
)


@everything
def test_the_method_decides_what_makes_the_sets(method, base):
    model = make_classifier(method, base, 0.8)
    if method == "erm":
        assert isinstance(model, ConformalSetClassifier if "boosting" in base else ERMClassifier)
        assert getattr(model, "rule", "single") == "single"
    else:
        assert isinstance(model, KINDS[method])
        assert getattr(model, "rule", method) == method
        assert model.target_recall == 0.8


@everything
def test_the_base_decides_what_scores_the_labels(method, base):
    model = make_classifier(method, base)
    scorer = getattr(model, "estimator", model)
    if base == "mlp+boosting":
        assert [name for name, _ in scorer.estimators] == ["mlp", "boosting"]
        assert scorer.get_params()["mlp__network"] == "mlp"
        assert isinstance(scorer.estimators[1][1][-1], HistGradientBoostingClassifier)
    elif base == "boosting":
        assert [type(step) for _, step in scorer.steps] == [TableEncoder, HistGradientBoostingClassifier]
    else:
        assert scorer.network == base


@everything
def test_every_part_that_draws_gets_the_random_state(method, base):
    model = make_classifier(method, base, random_state=7)
    drawing = {name: value for name, value in model.get_params().items() if name.endswith("random_state")}
    assert set(drawing.values()) == {7}


@everything
def test_every_recipe_can_be_cloned(method, base):
    model = make_classifier(method, base, 0.7, random_state=3)
    assert repr(clone(model)) == repr(model)


@pytest.mark.parametrize("base", ["boosting", "mlp+boosting"])
def test_set_cover_with_boosting_is_refused(base):
    message = re.escape(f"set-cover trains a network; {base} goes with robust, pooled or erm")
    with pytest.raises(InputError, match=message):
        make_classifier("set-cover", base)


def test_settings_of_training_go_to_the_network_of_a_mean():
    model = make_classifier("erm", "mlp+boosting", training={"epochs": 3})
    assert model.get_params()["estimator__mlp__epochs"] == 3


def test_boosting_fits_a_large_table_in_which_a_label_has_one_row():
    X, y = np.arange(10_001.0)[:, None], np.where(np.arange(10_001) == 0, 2, np.arange(10_001) % 2)
    model = make_classifier("erm", "boosting").set_params(estimator__histgradientboostingclassifier__max_iter=1)
    assert model.fit(X, y).classes_.tolist() == [0, 1, 2]


def test_boosting_takes_missing_values_as_they_are():
    model = make_classifier("erm", "boosting")
    encoder = model.estimator[0].fit(np.array([[1.0], [np.nan]]))
    assert np.isnan(encoder.transform(np.array([[np.nan]]))).all()
