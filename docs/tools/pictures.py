"""The pictures of docs/promised.md and docs/choosing.md: `python docs/tools/pictures.py` draws them anew.

Each is a table and a chart made from it; the tables are computed here, from real data where a real thing is shown.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from scipy.stats import beta
from sklearn.ensemble import HistGradientBoostingClassifier

from domaincover import GaussianDomains, PromisedSetClassifier, TableEncoder, cell_thresholds
from domaincover.calibration.scales import quantile_scale
from domaincover.paper.packaged_data import read_votes
from domaincover.paper.study_report.cross_plot_layers import chart_config
from domaincover.report.pictures import inline, save_chart
from domaincover.report.style import INK

IMAGES = Path(__file__).parents[1] / "images"
AT_TARGET, BELOW, NEUTRAL = "#31705c", "#b3261e", "#6285a8"
TARGET = 0.9
CALIBRATED = "calibrated the model"
TEXT = {"baseline": "bottom", "color": INK, "fontSize": 12}


def one_number_per_state() -> pd.DataFrame:
    """Return, for 25 states, how far all thresholds must be lowered there for every vote to be at target.

    Boosted trees learn on the other states. 0 is where the training rows are at target.
    """
    X, y, state = read_votes()
    names = np.unique(state)
    held_out = np.random.default_rng(0).permutation(names)[:25]
    trains = ~state.isin(held_out).to_numpy()
    encoder = TableEncoder().fit(X[trains])
    labels = (y == "Trump").to_numpy().astype(np.int64)
    model = HistGradientBoostingClassifier(max_iter=60, random_state=0).fit(
        encoder.transform(X[trains]), labels[trains]
    )
    scores = np.log(model.predict_proba(encoder.transform(X)))
    scale = quantile_scale(scores[trains], labels[trains], TARGET)
    levels = ((scores - scale.base) / scale.unit)[~trains]
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
    line = alt.Chart(inline(pd.DataFrame({"level": [chosen["level"]], "text": [text]})))
    y = alt.Y("state:N", sort=None, title=None, axis=alt.Axis(labelFontSize=11))
    x = alt.X("level:Q", title="how far down the thresholds must go for every vote of the state to be at target")
    colours = alt.Scale(domain=["at target", "passed over"], range=[AT_TARGET, BELOW])
    points = alt.Chart(inline(table)).mark_point(filled=True, size=90, opacity=1)
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
    base = alt.Chart(inline(table)).encode(y=alt.Y("m:N", sort=None, title=None))
    asked = alt.Chart(inline(pd.DataFrame({"asked": [TARGET], "text": ["what was asked for"]})))
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
    reports = {kind: model.domain_report(*part) for kind, part in drawn.items()}
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
    rule = alt.Chart(inline(pd.DataFrame({"target": [TARGET], "text": ["target 0.9"]})))
    legend = alt.Legend(orient="bottom")
    points = alt.Chart(inline(table)).mark_point(filled=True, size=60, opacity=0.85)
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


def _nth(k: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(k, f"{k}th")


def draw(chart: Any, name: str) -> None:
    """Write a chart as a picture of the documentation."""
    save_chart(chart.configure(**chart_config(INK)), IMAGES / f"{name}.png", "png")


def main() -> None:
    """Draw everything."""
    draw(order_statistic_chart(one_number_per_state()), "promised-order")
    draw(draws_chart(share_over_draws()), "promised-draws")
    draw(offset_chart(by_offset()), "promised-another-kind")


if __name__ == "__main__":
    main()
