"""The results in sentences: share of unseen domains at target and set size by method."""

import math
from collections import Counter
from typing import Any

import pandas as pd

from domaincover.paper.study_report.results_table import CheckedResults, experiments, of_experiment
from domaincover.report.ranking import SAME_SHARE, answers_with_one_label, ranked
from domaincover.report.style import method_styles

OURS = "set-cover"
USUAL = "erm"
ONE_SEED = " (one seed: the spread is unknown)"


def overall_sentence(results: CheckedResults) -> str:
    """Return how often each method comes first in unseen domains, and the uncertainty."""
    rankings = [ranked_unseen(results, dataset, target) for dataset, target in experiments(results)]
    rankings = [ranking for ranking in rankings if ranking]
    if not rankings:
        return "These results hold no unseen domains, so they say nothing about new ones."
    doubt = ONE_SEED if all(row["n_seeds"] == 1 for ranking in rankings for row in ranking) else ""
    compared = [ranking for ranking in rankings if len(ranking) > 1]
    if not compared:
        return _without_rivals([row for (row,) in rankings], doubt)
    firsts = Counter(ranking[0]["label"] for ranking in compared if not ranking[0]["degenerate"])
    degenerate = _degenerate_overall(compared)
    if not firsts:
        return f"No method has sets worth having{doubt}.{degenerate}"
    (winner, n_wins), *others = firsts.most_common()
    claim = f"At the highest share of unseen domains at target, {winner} has the smallest sets"
    if len(compared) == 1:
        return f"{claim}{doubt}.{degenerate}"
    noun = "data sets" if results["target_recall"].nunique() == 1 else "comparisons of data set and target"
    rest = "".join(f", {label} on {count}" for label, count in others)
    return f"{claim} on {n_wins} of {len(compared)} {noun}{rest}{doubt}.{degenerate}"


def _degenerate_overall(rankings: list[list[dict[str, Any]]]) -> str:
    found = Counter(row["label"] for ranking in rankings for row in ranking if row["degenerate"])
    if not found:
        return ""
    times = ", ".join(f"{label} on {count}" for label, count in found.most_common())
    return f" Degenerate, with nearly every label in every set, and not ranked: {times}."


def experiment_sentences(results: CheckedResults, dataset: str, target_recall: float) -> list[str]:
    """Return the methods with most unseen domains at target, and the ranks of SET-COVER and single-label methods."""
    ranking = ranked_unseen(results, dataset, target_recall)
    if not ranking:
        return ["No unseen domains were evaluated."]
    worth = [row for row in ranking if not row["degenerate"]]
    degenerate = [_degenerate(row) for row in ranking if row["degenerate"]]
    if not worth:
        return degenerate
    first, *others = worth
    sentences = [_first_place(first)]
    sentences += [_against_first(row, first) for row in others if row is others[0] or row["method"] == OURS]
    sentences += degenerate
    if not first["one_label"]:
        sentences += _closest_with_one_label([row for row in others if row["one_label"]])
    if others and first["share_at_target"] < 0.5:
        sentences.append("So no method holds the target in half of the unseen domains.")
    return sentences


def ranked_unseen(results: CheckedResults, dataset: str, target_recall: float) -> list[dict[str, Any]]:
    """Return the rows of unseen domains by rank, degenerate sets last."""
    labels = {method: style.label for method, style in method_styles(results["method"]).items()}
    rows: pd.DataFrame = of_experiment(results, dataset, target_recall)
    rows = ranked(rows[(rows["split"] == "unseen") & rows["share_at_target"].notna()])
    rows = rows.assign(label=rows["method"].map(labels), one_label=answers_with_one_label(rows))
    return [dict(zip(rows.columns, row, strict=True)) for row in rows.itertuples(index=False)]


def _without_rivals(rows: list[dict[str, Any]], doubt: str) -> str:
    label, *other_labels = dict.fromkeys(row["label"] for row in rows)
    if other_labels:
        return "No data set has more than one method here, so methods are not compared."
    low, high = (f"{100 * end(row['share_at_target'] for row in rows):.0f}" for end in (min, max))
    share = low if low == high else f"{low} to {high}"
    return f"{label} holds the target in {share} % of unseen domains{doubt}."


def _first_place(row: dict[str, Any]) -> str:
    spread = row["share_at_target_std"]
    between_seeds = "" if math.isnan(spread) else f" (± {100 * spread:.0f} points between seeds)"
    between_seeds = ONE_SEED if row["n_seeds"] == 1 else between_seeds
    return (
        f"{row['label']} keeps every label's recall at {row['target_recall']:g} or more in "
        f"{100 * row['share_at_target']:.0f} % of unseen domains{between_seeds}, "
        f"with {row['set_size']:.2f} of {row['n_labels']} labels per set."
    )


def _against_first(row: dict[str, Any], first: dict[str, Any]) -> str:
    sizes = "smaller" if row["set_size"] < first["set_size"] else "larger"
    if f"{row['set_size']:.2f}" == f"{first['set_size']:.2f}":
        sizes = "equally large"
    share, with_sets = f"{100 * row['share_at_target']:.0f} %", f"{sizes} sets ({row['set_size']:.2f})"
    if abs(row["share_at_target"] - first["share_at_target"]) <= SAME_SHARE + 1e-9:
        return f"{row['label']} does so in {share}, about as many, with {with_sets}."
    return f"{row['label']} follows with {share} and {with_sets}."


def _degenerate(row: dict[str, Any]) -> str:
    """Return what a degenerate predictor is."""
    return (
        f"The {100 * row['share_at_target']:.0f} % of {row['label']} come from sets of {row['set_size']:.2f} of "
        f"{row['n_labels']} labels; sets drawn by lot with the same recall would have {row['set_size_by_lot']:.2f}. "
        "It is degenerate and not ranked."
    )


def _closest_with_one_label(ranking: list[dict[str, Any]]) -> list[str]:
    """Return which single-label method has most domains at target, compared with ERM."""
    if len(ranking) < 2:
        return []
    shares = {row["label"]: f"{100 * row['share_at_target']:.0f} %" for row in ranking}
    most = ranking[0]["share_at_target"]  # a mean over seeds, which rounds
    best = [row["label"] for row in ranking if math.isclose(row["share_at_target"], most, abs_tol=1e-9)]
    if ranking[0]["share_at_target"] == 0:
        return [f"None of the {len(ranking)} methods that answer with one label holds the target in any unseen domain."]
    erm = [row["label"] for row in ranking if row["method"] == USUAL and row["label"] not in best]
    beside = "".join(f"; {label}: {shares[label]}" for label in erm)
    come = "comes" if len(best) == 1 else "come"
    names = " and ".join([", ".join(best[:-1]), best[-1]] if len(best) > 1 else best)
    of_all = f"Of the {len(ranking)} methods that answer with one label"
    return [f"{of_all}, {names} {come} closest ({shares[best[0]]}{beside})."]
