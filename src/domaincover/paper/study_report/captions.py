"""What the marks of each kind of chart mean, the same in figures and on the page."""

from domaincover.paper.study_report.chart_data import REACH
from domaincover.paper.study_report.results_table import CheckedResults, of_dataset

CURVES = (
    "A line per method through its target recalls, whose lines run across; the larger a point, the higher its target. "
    "Up is safer, left is sharper."
)


def caption(kind: str, n_seeds: int) -> str:
    """Return the caption of a kind of chart of results over this many seeds."""
    one = n_seeds == 1
    spread = "Thin lines: one standard deviation between seeds to either side."
    spread = "One seed, so the spread between seeds is unknown." if one else spread
    crosses = (
        "Points are medians over domains, bars run from the 25th to the 75th percentile; the line is the target, a "
        "dashed line, where in sight, sets drawn by lot."
    )
    texts = {
        "cross": crosses,
        "cross-splits": crosses,
        "curves": CURVES,
        "share": f"Share of unseen domains where every label’s recall is at least the target. {spread}",
        "min-recall": (
            f"Box: the middle half of the unseen domains of {'one seed' if one else f'{n_seeds} seeds together'}; "
            f"line: their median. Whiskers: the furthest domains within {REACH:g} box lengths; points: single domains "
            "beyond. Right of the target is safe."
        ),
        "coverage": f"Share of unseen domains at target against set size. {spread} Up is safer, left is sharper.",
    }
    return texts[kind]


def left_out_in_words(results: CheckedResults, dataset: str) -> str:
    """Return how many methods have no curve since they have one target recall, or an empty text."""
    own = of_dataset(results, dataset)
    n_targets = own[own["split"] == "unseen"].groupby("method")["target_recall"].nunique()
    count = int((n_targets == 1).sum())
    if not count:
        return ""
    return f"{'One method' if count == 1 else f'{count} methods'} with a single target recall left out."
