"""Which method comes first: smaller sets at an equal share of domains at target."""

from typing import Any

import pandas as pd

from domaincover.prediction_sets import is_hardly_better_than_lot
from domaincover.report.style import KNOWN_METHODS, SINGLE_LABEL_METHODS

RIVALS = ["dataset", "target_recall", "split"]
DAGGER = "†"
SAME_SHARE = 0.05  # of domains: about one of the 25 that a seed of the paper has
RULE = "Share in bold: the method with the smallest sets among those within 5 points of the highest share at target"
DEGENERATE = (
    f"{DAGGER} Degenerate and not ranked: less than a tenth smaller than sets drawn by lot with the same recall, since "
    "answering with every label reaches any target."
)


def answers_with_one_label(results: pd.DataFrame) -> pd.Series:
    """Return for each row whether its method is single-label: known methods by name, others by their sizes."""
    one_label_always = (results[["set_size_q25", "set_size", "set_size_q75"]] == 1).all(axis=1)
    return one_label_always.mask(results["method"].isin(KNOWN_METHODS), results["method"].isin(SINGLE_LABEL_METHODS))


def is_degenerate(results: pd.DataFrame) -> pd.Series:
    """Return for each row whether its sets are hardly better than sets drawn by lot; single labels never are."""
    by_lot = is_hardly_better_than_lot(*(results[name].to_numpy() for name in ("set_size", "set_size_by_lot")))
    return pd.Series(by_lot, index=results.index) & ~answers_with_one_label(results)


def is_best(results: pd.DataFrame) -> pd.Series:
    """Return for each row whether it comes first within its data set, target and split."""
    share = results["share_at_target"].mask(is_degenerate(results))
    rivals = [results[column] for column in RIVALS]
    highest = share.groupby(rivals).transform("max")
    is_equal = share >= highest - SAME_SHARE - 1e-9  # means over seeds round
    size = results["set_size"].where(is_equal)
    return size == size.groupby(rivals).transform("min")


def ranked(results: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of one data set, target and split: the first, the others by share, degenerate ones last."""
    found = results.assign(best=is_best(results), degenerate=is_degenerate(results))
    order = ["degenerate", "best", "share_at_target", "set_size"]
    return found.sort_values(order, ascending=[True, False, False, True], kind="stable")


def rule_in_words(results: pd.DataFrame, *, has_bold: bool = True) -> str:
    """Return the rule of the ranking, if it shows, and what the mark of degenerate sets means if there are any."""
    marks: list[Any] = [DEGENERATE] if bool(is_degenerate(results).any()) else []
    return " ".join([*([f"{RULE}{_points_in_words(results)}."] if has_bold else []), *marks])


def _points_in_words(results: pd.DataFrame) -> str:
    """Return how many domains of a seed the points are, where that is about one everywhere."""
    fewest, most = results["n_domains"].min(), results["n_domains"].max()
    if results.empty or {round(SAME_SHARE * fewest), round(SAME_SHARE * most)} != {1}:
        return ""
    of_all = f"{fewest:.0f}" if fewest == most else f"{fewest:.0f} to {most:.0f}"
    return f", since 5 points are about one domain of {of_all}"
