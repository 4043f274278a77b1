"""The pictures of docs/promised.md and docs/new-domain.md: `python docs/tools/pictures.py` draws them anew.

Each is a table and a chart made from it; the tables are computed here, from real data where a real thing is shown.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from scipy.stats import beta, gaussian_kde
from sklearn.ensemble import HistGradientBoostingClassifier

from domaincover import GaussianDomains, PromisedSetClassifier, TableEncoder
from domaincover.calibration.links import log_odds
from domaincover.datasets import load_votes
from domaincover.paper.study_report.figures import save_chart
from domaincover.report.charts import INK, chart_config
from domaincover.thresholds import cell_thresholds

IMAGES = Path(__file__).parents[1] / "images"
AT_TARGET, BELOW, NEUTRAL = "#31705c", "#b3261e", "#6285a8"
TARGET = 0.9
CALIBRATED = "calibrated the model"
TEXT = {"baseline": "bottom", "color": INK, "fontSize": 12}


def one_number_per_state() -> pd.DataFrame:
    """Return, for 25 states, how far all thresholds must be lowered there for every vote to be at target.

    Boosted trees learn on the other states. 0 is where the training rows are at target.
    """
    X, y, state = load_votes()
    names = np.unique(state)
    held_out = np.random.default_rng(0).permutation(names)[:25]
    trains = ~state.isin(held_out).to_numpy()
    encoder = TableEncoder().fit(X[trains])
    labels = (y == "Trump").to_numpy().astype(np.int64)
    model = HistGradientBoostingClassifier(max_iter=60, random_state=0).fit(
        encoder.transform(X[trains]), labels[trains]
    )
    levels = log_odds(model.predict_proba(encoder.transform(X)))[~trains]
    codes, domains = np.unique(state[~trains], return_inverse=True)
    asked = cell_thresholds(levels, labels[~trains], domains, TARGET, min_cell_size=20).min(axis=1)
    counts = np.isfinite(asked)
    table = pd.DataFrame({"state": codes[counts], "level": asked[counts]}).sort_values("level", ignore_index=True)
    k = int((1 - TARGET) * (len(table) + 1))
    return table.assign(place=table.index + 1, kept=np.where(table.index + 1 < k, "passed over", "at target"), k=k)


def order_statistic_chart(table: pd.DataFrame) -> alt.LayerChart:
    """Return the states in the order of their numbers, with the one that becomes the threshold."""
    k, n = int(table["k"].iloc[0]), len(table)
    chosen = table.iloc[k - 1]
    text = f"the threshold: {chosen['state']}, number {k} of {n}"
    line = alt.Chart(pd.DataFrame({"level": [chosen["level"]], "text": [text]}))
    y = alt.Y("state:N", sort=None, title=None, axis=alt.Axis(labelFontSize=11))
    x = alt.X("level:Q", title="how far down the thresholds must go for every vote of the state to be at target")
    colours = alt.Scale(domain=["at target", "passed over"], range=[AT_TARGET, BELOW])
    points = alt.Chart(table).mark_point(filled=True, size=90, opacity=1)
    subtitle = [
        f"{n} states that the model has not seen. A new state's number is equally likely to fall into any of the"
        f" {n + 1} gaps:",
        f"it lies left of the {_nth(k)} lowest with a probability of {k} in {n + 1} at most.",
    ]
    return alt.layer(
        line.mark_rule(color=INK, strokeWidth=2).encode(x="level:Q"),
        points.encode(x=x, y=y, color=alt.Color("kept:N", title=None, scale=colours)),
        line.mark_text(**TEXT, align="left", dx=8, dy=14).encode(x="level:Q", y=alt.value(0), text="text:N"),
    ).properties(
        width=560, height=420, title=alt.TitleParams("One number per domain, and an order statistic", subtitle=subtitle)
    )


def share_over_draws(confidence: float = 0.9) -> pd.DataFrame:
    """Return how the probability that the next domain is at target is spread over draws of m calibration domains."""
    rows = []
    for m in (9, 19, 29, 49, 99):
        k = int(np.floor((1 - confidence) * (m + 1) + 1e-9))
        low, middle, high = beta.ppf([0.05, 0.5, 0.95], m + 1 - k, k)
        rows.append({"m": f"{m} domains", "low": low, "middle": middle, "high": high, "mean": (m + 1 - k) / (m + 1)})
    return pd.DataFrame(rows)


def draws_chart(table: pd.DataFrame) -> alt.LayerChart:
    """Return one row per number of domains: nine draws in ten, and the median."""
    base = alt.Chart(table).encode(y=alt.Y("m:N", sort=None, title=None))
    asked = alt.Chart(pd.DataFrame({"asked": [TARGET], "text": ["what was asked for"]}))
    x = {
        "title": "probability that the next domain is at target",
        "scale": alt.Scale(domain=[0.65, 1], zero=False),
        "axis": alt.Axis(format="%"),
    }
    return alt.layer(
        asked.mark_rule(color=INK, strokeDash=[5, 4]).encode(x=alt.X("asked:Q", **x)),
        base.mark_rule(strokeWidth=12, strokeCap="round", color=NEUTRAL, opacity=0.6).encode(
            x=alt.X("low:Q", **x), x2="high:Q"
        ),
        base.mark_tick(color=INK, thickness=3, height=18, opacity=1).encode(x=alt.X("middle:Q", **x)),
        asked.mark_text(**TEXT, align="right", dx=-6, dy=-6).encode(
            x=alt.X("asked:Q", **x), y=alt.value(0), text="text:N"
        ),
    ).properties(
        width=560,
        height=190,
        title=alt.TitleParams(
            "A promise of 90 %, kept on average over draws of the calibration domains",
            subtitle=["Bars: nine draws in ten; ticks: the median draw. More domains leave less to luck."],
        ),
    )


def by_offset() -> pd.DataFrame:
    """Return the min recall of domains drawn like those that calibrated, and of some whose instrument is set wrong."""
    rng = np.random.default_rng(0)
    usual = {"trained": 40, CALIBRATED: 39, "new, drawn alike": 60}
    offsets = {kind: rng.uniform(-0.1, 0.1, n) for kind, n in usual.items()}
    offsets["new, of another kind"] = np.linspace(0.12, 0.4, 25)
    drawn = {kind: _domains(offset, rng) for kind, offset in offsets.items()}
    base = HistGradientBoostingClassifier(max_iter=60, random_state=0).fit(*drawn.pop("trained")[:2])
    model = PromisedSetClassifier(base, domain_confidence=TARGET, calibration="prefit", random_state=0)
    X, y, domains = drawn[CALIBRATED]
    model.fit(X, y, domains=domains)
    reports = {kind: model.domain_report(*part, thresholds="fixed") for kind, part in drawn.items()}
    return pd.concat(
        [
            pd.DataFrame({"offset": offsets[kind], "min_recall": reports[kind].min_recall, "kind": kind})
            for kind in drawn
        ],
        ignore_index=True,
    )


def _domains(offsets: Any, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """Return 600 examples from each of the paper's domains, with all measurements moved by the domain's offset."""
    paper = GaussianDomains.of_paper(n_features=10)
    drawn = paper.sample(len(offsets), 600, rng)
    return drawn.examples + offsets[drawn.domains, None], drawn.labels, drawn.domains


def offset_chart(table: pd.DataFrame) -> alt.LayerChart:
    """Return min recall against a domain's offset."""
    kinds = list(dict.fromkeys(table["kind"]))
    looks = alt.Scale(domain=kinds, range=["#8a919e", AT_TARGET, BELOW])
    shapes = alt.Scale(domain=kinds, range=["circle", "diamond", "cross"])
    rule = alt.Chart(pd.DataFrame({"target": [TARGET], "text": ["target 0.9"]}))
    legend = alt.Legend(orient="bottom")
    points = alt.Chart(table).mark_point(filled=True, size=60, opacity=0.85)
    return alt.layer(
        rule.mark_rule(color=INK).encode(y="target:Q"),
        rule.mark_text(**TEXT, align="right", dy=-4).encode(x=alt.value(560), y="target:Q", text="text:N"),
        points.encode(
            x=alt.X(
                "offset:Q", title="by how much the domain's instrument measures too high", scale=alt.Scale(zero=False)
            ),
            y=alt.Y("min_recall:Q", title="smallest recall of any label", scale=alt.Scale(zero=False)),
            color=alt.Color("kind:N", title=None, scale=looks, legend=legend),
            shape=alt.Shape("kind:N", title=None, scale=shapes, legend=legend),
        ),
    ).properties(
        width=560,
        height=300,
        title=alt.TitleParams(
            "What no promise covers: a kind of domain that was not there", subtitle=[_at_target_in_words(table)]
        ),
    )


def _at_target_in_words(table: pd.DataFrame) -> str:
    at_target = table.assign(ok=table["min_recall"] >= TARGET).groupby("kind")["ok"].agg(["sum", "size"])
    alike, other = at_target.loc["new, drawn alike"], at_target.loc["new, of another kind"]
    counts = (
        f"{alike['sum']} of {alike['size']} new domains drawn alike, {other['sum']} of {other['size']} of another kind."
    )
    return f"Promised: 90 % of new domains drawn alike. At target: {counts}"


def scores_and_thresholds() -> pd.DataFrame:
    """Return the density of one label's scores in eight new domains, with its fixed, adapted and needed thresholds.

    The fit is that of docs/new-domain.md.
    """
    paper = GaussianDomains.of_paper(n_features=10)
    data, new = (paper.sample(40, 300, np.random.default_rng(seed)) for seed in (0, 1))
    model = PromisedSetClassifier(HistGradientBoostingClassifier(max_iter=60), random_state=0)
    model.fit(data.examples, data.labels, domains=data.domains)
    scores = model.label_scores(new.examples)[:, 1]
    adapted = model.domain_thresholds(new.examples, new.domains)[1]
    sizes = [model.predict_set(new.examples, domains).sum(axis=1) for domains in (None, new.domains)]
    order = adapted.sort_values().index[2::5]  # from low to high, every fifth
    grid = np.linspace(-7, 8, 101)
    rows = []
    for place, domain in enumerate(order, start=1):
        inside = new.domains == domain
        own = scores[inside & (new.labels == 1)]
        fixed_size, adapted_size = (size[inside].mean() for size in sizes)
        name = f"domain {place}: {fixed_size:.2f} → {adapted_size:.2f} labels per set"
        lines = {"fixed": model.thresholds_[1], "adapted": adapted[domain], "needed": np.quantile(own, 1 - TARGET)}
        for kind, part in (("rows with the label", own), ("other rows", scores[inside & (new.labels == 0)])):
            density = gaussian_kde(part, 0.3)(grid) * len(part) / inside.sum()
            rows.append(pd.DataFrame({"domain": name, "rows": kind, "score": grid, "density": density, **lines}))
    return pd.concat(rows, ignore_index=True)


def moving_chart(table: pd.DataFrame) -> alt.FacetChart:
    """Return a strip per domain: scores with and without the label, and the thresholds."""
    names = {"fixed": "fixed", "adapted": "adapted, without labels", "needed": "needed, by all labels"}
    looks = alt.Scale(
        domain=["rows with the label", "other rows", *names.values()],
        range=[AT_TARGET, "#b9bec7", BELOW, INK, "#8a6d00"],
    )
    legend = alt.Legend(orient="top", symbolType="square", columns=5)
    base = alt.Chart(table)
    area = base.mark_area(opacity=0.55).encode(
        x=alt.X("score:Q", title="score of the label (log-odds)"),
        y=alt.Y("density:Q", axis=None, stack=None),
        color=alt.Color("rows:N", title=None, scale=looks, legend=legend),
    )
    rules = (
        base.transform_fold(list(names), as_=["which", "at"])
        .transform_aggregate(at="mean(at)", groupby=["domain", "which"])
        .transform_calculate(name=f"{names}[datum.which]")
        .mark_rule(strokeWidth=2.5)
        .encode(
            x="at:Q",
            color=alt.Color("name:N", title=None, scale=looks, legend=legend),
            strokeDash=alt.StrokeDash(
                "name:N", scale=alt.Scale(domain=list(names.values()), range=[[6, 3], [1, 0], [2, 3]]), legend=None
            ),
        )
    )
    header = alt.Header(labelAnchor="start", labelOrient="top", labelFontSize=11, labelPadding=2)
    return (
        alt.layer(area, rules)
        .properties(width=600, height=44)
        .facet(row=alt.Row("domain:N", title=None, sort=None, header=header), spacing=2)
        .properties(
            title=alt.TitleParams(
                "What moves: the threshold of one label in eight new domains",
                subtitle=[
                    "Scores at or above the threshold put the label into the set. The fixed one serves the hardest",
                    "domains everywhere; the adapted one is set by a domain's own rows, without their labels.",
                ],
            )
        )
    )


WAYS = ("no rows: fixed thresholds", "150 rows: thresholds of its own", "150 rows, 100 labels: it learns")


def sizes_of_new_domains() -> pd.DataFrame:
    """Return the mean set size of later rows in 40 new domains, and whether each is at target, by what is known of it.

    The fit is that of docs/new-domain.md.
    """
    paper = GaussianDomains.of_paper(n_features=10)
    data, new = (paper.sample(40, 300, np.random.default_rng(seed)) for seed in (0, 1))
    model = PromisedSetClassifier(HistGradientBoostingClassifier(max_iter=60), random_state=0)
    model.fit(data.examples, data.labels, domains=data.domains)
    rows = []
    for domain in range(40):
        X, y = (part[new.domains == domain] for part in (new.examples, new.labels))
        known = np.full(150, None, dtype=object)
        chosen = model.choose_rows(X[:150], 100)
        known[chosen] = y[:150][chosen]
        for way, own in zip(WAYS, (model, model.adapt(X[:150]), model.adapt(X[:150], known)), strict=True):
            sets = own.predict_set(X[150:])
            recall = min(sets[y[150:] == label, label].mean() for label in range(2))
            rows.append({"way": way, "size": sets.sum(axis=1).mean(), "at target": recall >= TARGET})
    return pd.DataFrame(rows)


def three_ways_chart(table: pd.DataFrame) -> alt.HConcatChart:
    """Return a panel for each way: how many domains have sets of which size, coloured by whether they are at target."""
    colours = alt.Scale(domain=["at target", "below"], range=[AT_TARGET, BELOW])
    table = table.assign(kept=np.where(table["at target"], "at target", "below"))
    panels = []
    for way in WAYS:
        own = table[table["way"] == way]
        found = f"{own['size'].mean():.2f} labels per set, {own['at target'].sum()} of {len(own)} domains at target"
        x = alt.X("size:Q", bin=alt.Bin(step=0.1, extent=[0.9, 2]), title="mean set size of a domain")
        y = alt.Y("count()", title="domains", scale=alt.Scale(domain=[0, 20]))
        bars = alt.Chart(own).mark_bar().encode(x=x, y=y, color=alt.Color("kept:N", title=None, scale=colours))
        panels.append(bars.properties(width=230, height=170, title=alt.TitleParams(way, subtitle=[found])))
    return alt.hconcat(*panels)


def _nth(k: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(k, f"{k}th")


def draw(chart: Any, name: str) -> None:
    """Write a chart as a picture of the documentation."""
    save_chart(chart.configure(**chart_config(INK)).to_dict(), IMAGES / f"{name}.png", "png")


def main() -> None:
    """Draw everything."""
    draw(order_statistic_chart(one_number_per_state()), "promised-order")
    draw(draws_chart(share_over_draws()), "promised-draws")
    draw(offset_chart(by_offset()), "promised-another-kind")
    draw(moving_chart(scores_and_thresholds()), "new-domain-thresholds")
    draw(three_ways_chart(sizes_of_new_domains()), "new-domain-three-ways")


if __name__ == "__main__":
    main()
