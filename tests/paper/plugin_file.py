"""A plug-in as a user would write one: a data set, methods that work, and methods that do not."""

import os
import signal

import numpy as np
from sklearn.linear_model import LogisticRegression

from domaincover import ConformalSetClassifier
from domaincover.study import register_dataset, register_method


@register_dataset("clinics", n_train_domains=10, n_unseen_domains=6, max_train_rows=60, max_test_rows=60, epochs=2)
def clinics():
    rng = np.random.default_rng(0)
    clinic, ill = rng.integers(16, size=3200), rng.integers(2, size=3200)
    return rng.normal(size=(3200, 3)) + ill[:, None] + 0.1 * clinic[:, None], np.array(["well", "ill"])[ill], clinic


@register_method("logistic-robust")
def logistic_robust(target_recall, seed):
    return ConformalSetClassifier(LogisticRegression(), "robust", target_recall=target_recall, random_state=seed)


@register_method("logistic")
def logistic(*_):
    return LogisticRegression()


@register_method("breaks")
def breaks(*_):
    raise RuntimeError("no such luck\nat all")


@register_method("dies")
def dies(*_):
    os.kill(os.getpid(), signal.SIGKILL)
