"""What was run, and which method comes first on each data set, in a sentence each."""

import math

from domaincover.paper.study_report.results_rows import is_best, readable_rows, seeds_and_domains
from domaincover.paper.study_report.results_table import CheckedResults
from domaincover.paper.study_report.style import method_styles
from domaincover.report.readable import sentence


def what_was_run(results: CheckedResults) -> str:
    """Return the numbers of methods and data sets, the targets, seeds and domains."""
    unseen = CheckedResults(results[results["split"] == "unseen"])
    if unseen.empty:
        return "These results hold no unseen domains, so they say nothing about new ones."
    targets = [f"{target:g}" for target in sorted(set(unseen["target_recall"]))]
    counts = [
        f"{count} {noun}{'' if count == 1 else 's'}"
        for count, noun in ((unseen["method"].nunique(), "method"), (unseen["dataset"].nunique(), "data set"))
    ]
    said = seeds_and_domains(readable_rows(unseen))
    noun = "target recall" if len(targets) == 1 else "target recalls"
    return f"{' on '.join(counts)}, {noun} {', '.join(targets)}. {sentence(said)}"


def first_place(results: CheckedResults, dataset: str, target_recall: float) -> str:
    """Return the method with the smallest sets at the highest share of unseen domains at target."""
    own = (results["dataset"] == dataset) & (results["target_recall"] == target_recall) & (results["split"] == "unseen")
    rows = results[own & results["share_at_target"].notna()]
    if rows.empty:
        return "No unseen domains were evaluated."
    best = rows[is_best(rows)].sort_values("share_at_target", ascending=False, kind="stable")
    if best.empty:
        return "No method has sets worth having: all are hardly smaller than sets drawn by lot with the same recall."
    first = best.iloc[0]
    spread = first["share_at_target_std"]
    doubt = "" if math.isnan(spread) else f" (± {100 * spread:.0f} points between seeds)"
    doubt = " (one seed: the spread is unknown)" if first["n_seeds"] == 1 else doubt
    return (
        f"{method_styles(results['method'])[first['method']].label} keeps every label's recall at {target_recall:g} or "
        f"more in {100 * first['share_at_target']:.0f} % of unseen domains{doubt}, with {first['set_size']:.2f} of "
        f"{first['n_labels']} labels per set."
    )
