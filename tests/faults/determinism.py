"""Fit every kind of estimator and print a digest of what each predicts: `python -m tests.faults.determinism [--all]`.

Two processes that print the same have the same bits, whatever their threads, hash seeds and order of work.
"""

import hashlib
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from domaincover import (
    ConformalSetClassifier,
    DomainGeneralizationClassifier,
    ERMClassifier,
    InputError,
    PromisedSetClassifier,
    SetCoverClassifier,
)

RNG = np.random.default_rng(0)
N_ROWS, N_DOMAINS = 1200, 12
DOMAINS = np.arange(N_ROWS) % N_DOMAINS
LABELS = np.arange(N_ROWS) // N_DOMAINS % 3
X = (RNG.normal(size=(N_ROWS, 8)) + LABELS[:, None] / 2 + DOMAINS[:, None] / 20).astype(np.float64)
PENALTIES = ("irm", "vrex", "mmd", "coral")
RULES = ("robust", "pooled", "hierarchical", "order", "single")
CALIBRATIONS = ("held-out-domains", "cross-fit", "jackknife-minmax", "training-data")
QUICK = {"epochs": 2, "random_state": 0}
WORDS = [f"word{number}" for number in range(40)]


def on_tables(everything):
    """Return estimators by name; with everything, every rule by every calibration that it has."""
    made = {"set-cover": SetCoverClassifier(**QUICK), "erm": ERMClassifier(**QUICK)}
    made["set-cover, promised"] = PromisedSetClassifier(
        SetCoverClassifier(**QUICK), domain_confidence=0.8, random_state=0
    )
    made |= {kind: DomainGeneralizationClassifier(kind, **QUICK) for kind in PENALTIES}
    base = LogisticRegression()
    for rule in RULES:
        for calibration in CALIBRATIONS if everything else CALIBRATIONS[:1]:
            made[f"{rule}, {calibration}"] = conformal(base, rule, calibration)
    if everything:
        boosting = HistGradientBoostingClassifier(max_iter=5, early_stopping=False)
        made["boosting"] = conformal(boosting, "robust", "held-out-domains")
        made["over a network"] = conformal(ERMClassifier(**QUICK), "robust", "cross-fit")
    return made


def conformal(base, rule, calibration):
    promised = {"domain_confidence": 0.5} if rule == "order" else {}
    return ConformalSetClassifier(base, rule, calibration=calibration, random_state=0, **promised)


def on_sources(place):
    """Return estimators on images and texts, and what they learn from, by name."""
    from domaincover.estimators.image_and_text_networks import ImageNetwork, TextNetwork
    from tests.tiny_models import tiny_bert_folder, tiny_resnet_folder

    resnet, bert = tiny_resnet_folder(place / "resnet"), tiny_bert_folder(place / "bert", WORDS)
    images = np.random.default_rng(1).integers(256, size=(120, 16, 16, 3), dtype=np.uint8)
    texts = [" ".join(np.random.default_rng(row).choice(WORDS, 6)) for row in range(120)]
    settings = {"cache": None, "workers": 0}
    return {
        "images, head": (ImageNetwork(model=str(resnet), image_size=16, **settings), images),
        "images, whole": (ImageNetwork(model=str(resnet), image_size=16, learn="all", **settings), images),
        "texts, words": (TextNetwork(model=str(bert), hidden=(4,), **settings), texts),
        "texts, encoder": (TextNetwork(model=str(bert), features="encoder", **settings), texts),
        "texts, whole": (TextNetwork(model=str(bert), features="encoder", learn="all", **settings), texts),
    }


def outcome(model, examples):
    """Return all that a model says of examples: its sets, or scores where it has them."""
    from domaincover.predictors.set_predictor import predict_set

    scores = [name for name in ("decision_function", "predict_proba") if hasattr(model, name)]
    return [np.asarray(predict_set(model, examples)), *(np.asarray(getattr(model, name)(examples)) for name in scores)]


def outcomes(everything=False):
    """Fit every estimator; yield name, model, examples, and what it says of them."""
    for name, model in on_tables(everything).items():
        try:
            model.fit(X, LABELS, domains=DOMAINS)
        except InputError:  # not every rule has every calibration
            continue
        yield name, model, X, outcome(model, X)
    if everything:
        with tempfile.TemporaryDirectory() as place:
            for name, (network, examples) in on_sources(Path(place)).items():
                model = SetCoverClassifier(network=network, batch_size=32, **QUICK)
                model.fit(examples, LABELS[:120], domains=DOMAINS[:120])
                yield name, model, examples, outcome(model, examples)


def digest(said):
    """Return a digest of numbers, to the last bit."""
    whole = hashlib.blake2b(digest_size=8)
    for part in said:
        whole.update(np.ascontiguousarray(part).tobytes())
    return whole.hexdigest()


def main():
    """Print digests; with --values FILE, keep the numbers as well."""
    found = {name: said for name, _, _, said in outcomes("--all" in sys.argv)}
    if "--values" in sys.argv:
        flat = {f"{name}/{k}": part for name, said in found.items() for k, part in enumerate(said)}
        np.savez(sys.argv[-1], **flat)
    sys.stdout.write(json.dumps({name: digest(said) for name, said in found.items()}) + "\n")


if __name__ == "__main__":
    main()
