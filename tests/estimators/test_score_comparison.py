import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from domaincover import GaussianDomains, InputError, PromisedSetClassifier
from domaincover.thresholds import GivenProbabilities, compare_scores


@pytest.fixture(scope="module")
def scored():
    draw, rng = GaussianDomains.of_paper(n_features=10), np.random.default_rng(0)
    old, new = draw.sample(10, 200, rng), draw.sample(60, 200, rng)
    scorer = LogisticRegression().fit(old.examples, old.labels)
    bias = 1.5 * rng.normal(size=60)[new.domains]  # which labels of a domain can teach
    logits = scorer.predict_log_proba(new.examples) + bias[:, None] * [0, 1]
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)), np.array(["no", "yes"])[new.labels], new.domains


def test_every_method_stands_in_the_table(scored):
    logits, y, domains = scored
    found = compare_scores(logits, y, domains, few_labels=(100,))
    assert list(found.columns) == ["share_at_target", "min_recall_p10", "set_size"]
    assert found.loc["one label", "set_size"] == 1.0
    assert {"robust", "joint", "adapted to rows", "adapted to 100 labels"} <= set(found.index)
    assert found.loc["joint", "share_at_target"] > found.loc["split conformal, by label", "share_at_target"]
    assert found.loc["adapted to rows", "share_at_target"] >= 0.7  # of 30: below it once in 3,000 draws at 0.9


def test_logits_probabilities_and_columns_in_another_order_are_the_same(scored):
    logits, y, domains = scored
    found = compare_scores(logits, y, domains, few_labels=())
    assert compare_scores(np.exp(logits), y, domains, few_labels=()).equals(found)
    assert (
        compare_scores(logits[:, ::-1], y, domains, labels=["yes", "no"], few_labels=()).round(9).equals(found.round(9))
    )


def test_the_adapted_row_is_that_of_a_prefit_classifier(scored):
    logits, y, domains = scored
    found = compare_scores(logits, y, domains, few_labels=(), unseen=0.5, random_state=3)
    new = np.isin(domains, np.sort(np.random.default_rng(3).permutation(60)[30:]))
    model = PromisedSetClassifier(
        GivenProbabilities(["no", "yes"]), calibration="prefit", few_labels=(), random_state=3
    )
    model.fit(np.exp(logits)[~new], y[~new], domains=domains[~new])
    summary = model.domain_report(np.exp(logits)[new], y[new], domains[new]).summary(0.9)
    assert found.loc["adapted to rows"].tolist() == [summary.share_at_target, summary.min_recall_p10, summary.set_size]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"scores": np.ones((4, 3))}, "scores have 3 columns, and there are 2 labels"),
        ({"scores": np.full((4, 2), np.nan)}, "scores must be finite numbers"),
        ({"scores": np.ones(4)}, "scores must be finite numbers"),
        ({"labels": ["no", "maybe"]}, "yes"),
    ],
)
def test_what_does_not_fit_is_refused(change, said):
    given = {"scores": np.eye(2)[[0, 1, 0, 1]], "y": ["no", "yes", "no", "yes"], "domains": [0, 0, 1, 1]} | change
    with pytest.raises(InputError, match=said):
        compare_scores(**given)
