"""The page in a real browser: what is drawn, what can be clicked, and that no name runs as code."""

import html
import json
import re
import shutil
import subprocess
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from domaincover.paper.published import published
from domaincover.paper.study_report.page import write_page
from domaincover.paper.study_report.style import COMPARISONS, KNOWN_METHODS
from tests.processes import LIMIT

from .made_up import HOSTILE, full_study, results_of

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr", "--virtual-time-budget=600000", "--dump-dom"),
]
pytestmark = pytest.mark.skipif(BROWSER is None, reason="chromium is not installed")

TOOLS = """
const found = {};
const all = (selector) => [...document.querySelectorAll(selector)];
const send = (element, types) => {
  const box = element.getBoundingClientRect();
  types.forEach((type) => element.dispatchEvent(
    new MouseEvent(type, { bubbles: true, clientX: box.x + 2, clientY: box.y + 2 })));
};
const choose = (id, value) => {
  const select = document.getElementById(id);
  select.value = value;
  select.dispatchEvent(new Event("change", { bubbles: true }));
};
const tooltip = () => document.getElementById("vg-tooltip-element");
const column = (n) => all("#explore-table tbody tr").map((row) => row.cells[n].textContent);
const overflow = () => document.documentElement.scrollWidth - document.documentElement.clientWidth;
const cut = () => all(".chart svg").filter((svg) => {
  const whole = svg.getBoundingClientRect();
  return [...svg.querySelectorAll("text")].some((text) => {
    const box = text.getBoundingClientRect();
    const outside = box.left < whole.left - 1 || box.right > whole.right + 1 || box.bottom > whole.bottom + 1;
    return box.width > 0 && outside;
  });
}).map((svg) => svg.closest(".chart").id);
const drawAll = () => dispatchEvent(new Event("beforeprint"));
const isExplored = () => {
  drawAll(); // again, since the explorer hears it only when its data are unpacked
  return all("#explore-table tbody tr").length;
};
const areDrawn = () => isExplored()
  && all(".chart").every((place) => !place.clientWidth || place.querySelector("svg.marks"));
const hasTooltip = () => tooltip()?.textContent;
const resources = () => performance.getEntriesByType("resource").filter((entry) => !entry.name.startsWith("data:"));
"""

# Looks at the first data set's plots, points at marks, changes the choices, then works the explorer.
VISITOR = """
const namesOf = (kind) => all(`#${kind}-1 .role-axis-label text`).filter((text) => !/[0-9]/.test(text.textContent));
const titles = (kind) => all(`#${kind}-1 .role-axis-title text`);
const heights = (kind) => namesOf(kind).map((text) => Math.round(text.getBoundingClientRect().y));
const opacities = () => all("#cross-1 .mark-rule.role-mark line[opacity]")
  .map((line) => Number(line.getAttribute("opacity")));
const steps = [
  [() => true, () => { found.lazy = all(".chart svg").length; }],
  [areDrawn, () => {
    found.plots = all(".chart svg.marks").length;
    found.places = all(".chart").filter((place) => place.clientWidth).length;
    found.legends = all(".panel .role-legend").length;
    found.panels = all(".panel svg.marks").map((svg) => svg.closest(".chart").id);
    found.crosses = all("#cross-1 .mark-symbol.role-mark path").length;
    found.hollow = all("#cross-1 .role-legend-symbol path").map((path) => path.getAttribute("fill") === "transparent");
    found.heights = [heights("share"), heights("min-recall")];
    found.figures = ["share-1", "min-recall-1"].map((id) => document.getElementById(id).getBoundingClientRect().x);
    found.said = ["share-1", "min-recall-1"].map((id) =>
      document.querySelector(`#${id} [role=graphics-document]`).getAttribute("aria-label"));
    found.cut = cut();
    found.overflow = overflow();
    all("[name=points-1]")[0].click();
  }],
  [() => all("#cross-1 .mark-symbol.role-mark path").length > found.crosses, () => {
    const points = all("#cross-1 .mark-symbol.role-mark path");
    found.points = points.length;
    send(points[0], ["pointermove", "mousemove"]);
  }],
  [hasTooltip, () => {
    found.tooltip = tooltip().textContent;
    const entry = all("#cross-1 .role-legend-label text").find((label) => label.textContent === "SET-COVER");
    send(entry, ["click"]);
  }],
  [() => opacities().some((opacity) => opacity < 1), () => {
    found.bright = opacities().filter((opacity) => opacity === 1).length;
    found.dim = opacities().filter((opacity) => opacity < 1).length;
    send(document.querySelector("#min-recall-1 .mark-symbol.role-mark path"), ["pointermove", "mousemove"]);
  }],
  [() => tooltip().textContent !== found.tooltip, () => {
    found.outlier = tooltip().textContent;
    all("[name=target-1]")[0].click();
    all("[name=group-1]")[1].click();
  }],
  [() => namesOf("share").length === 2 && titles("share")[0].textContent.endsWith("0.8"), () => {
    found.chosen = namesOf("share").map((text) => text.textContent);
    found.title = titles("share")[0].textContent;
    found.heads = all("#explore-table thead th").map((head) => head.textContent);
    found.count = document.getElementById("explore-count").textContent;
    found.recalls = column(3);
    found.sortedBy = all("#explore-table [aria-sort=ascending]").map((head) => head.textContent);
    found.track = all("#explore-table tbody tr:first-child .dot").length;
    all("#explore-table [data-column=set_size]")[0].click();
    all("#explore-table [data-column=set_size]")[0].click();
    found.sizes = column(7);
    found.descending = all("#explore-table [aria-sort=descending]").map((head) => head.textContent);
    found.focused = document.activeElement.dataset.column;
    document.getElementById("explore-below").click();
    found.below = column(3);
    document.getElementById("explore-below").click();
    const search = document.getElementById("explore-search");
    search.value = "MAIN 3";
    search.dispatchEvent(new Event("input"));
    found.searched = column(0);
    search.value = "";
    choose("explore-dataset", "1");
    choose("explore-method", "robust");
    choose("explore-target", "0.8");
    choose("explore-seed", "1");
    found.switched = document.getElementById("explore-count").textContent;
    choose("explore-method", "irm");
    found.targets = all("#explore-target option").map((option) => option.value);
    found.resources = resources().length;
  }],
];
"""

NARROW = """
const steps = [[areDrawn, () => {
  found.cut = cut();
  found.overflow = overflow();
  found.plots = all(".chart svg.marks").length;
  found.figures = ["share-1", "min-recall-1"].map((id) => document.getElementById(id).getBoundingClientRect().x);
}]];
"""

WITH_NAMES = """
const steps = [
  [() => isExplored() && all("#cross-1 .mark-symbol.role-mark path").length, () => {
    found.crosses = all("#cross-1 .mark-symbol.role-mark path").length;
    all("[name=points-1]")[0].click();
  }],
  [() => all("#cross-1 .mark-symbol.role-mark path").length > found.crosses, () =>
    send(all("#cross-1 .mark-symbol.role-mark path")[0], ["pointermove", "mousemove"])],
  [hasTooltip, () => {
    found.tooltip = tooltip().textContent;
    found.tags = all("img, #vg-tooltip-element script, main script").length;
    found.domain = column(0)[0];
    found.heads = all("#explore-table thead th").map((head) => head.textContent);
    found.titles = all("#explore-table .track-cell").map((cell) => cell.title)[0];
    found.methods = all("#explore-method option").map((option) => option.textContent);
  }],
];
"""
# Does each step as soon as what it takes is there, however long the browser takes to draw it.
RUN = """
const from = (number) => {
  if (number === steps.length) {
    document.body.dataset.found = JSON.stringify(found);
  } else if (steps[number][0]()) {
    steps[number][1]();
    setTimeout(from, 0, number + 1);
  } else {
    document.body.dataset.waiting = number;
    setTimeout(from, 10, number);
  }
};
addEventListener("load", () => from(0));
"""
ALARM = "<head><script>window.alert = () => { document.documentElement.dataset.alarm = 'rang'; };</script>"


class Visit(NamedTuple):
    dom: str
    found: dict[str, object]
    console: list[str]


def visited(page, folder, visitor, flags=()):
    text = page.read_text(encoding="utf-8").replace("<head>", ALARM, 1)
    script = f"<script>{{{TOOLS}{visitor}{RUN}}}</script></body>"
    copy = folder / "visited.html"
    copy.write_text(script.join(text.rsplit("</body>", 1)), encoding="utf-8")
    command = [BROWSER, *FLAGS, *flags, f"--user-data-dir={folder / 'profile'}", copy.as_uri()]
    run = subprocess.run(command, capture_output=True, timeout=LIMIT, check=True)
    dom, log = run.stdout.decode(), run.stderr.decode(errors="replace")
    done = re.search('data-found="(.*?)"', dom)
    assert done, f"stopped at step {re.findall('data-waiting=.([0-9]+)', dom)}: {log}"
    found = json.loads(html.unescape(done[1]))
    return Visit(dom, found, [line for line in log.splitlines() if "CONSOLE" in line])


@pytest.fixture(scope="module")
def study():
    """Return a study of every known method and two targets, where domain 2 is far below the others at 0.9."""
    domains = full_study(
        np.random.default_rng(0), ("synthetic-10", "votes"), n_seeds=2, n_domains=6, targets=(0.8, 0.9)
    )
    far = (domains["domain"] == "domain 2") & (domains["target_recall"] == 0.9)
    domains["min_recall"] = domains["min_recall"].mask(far, 0.3)
    lowered = [{**recall, "0": 0.3} for recall in domains.loc[far, "recall"]]
    domains.loc[far, "recall"] = pd.Series(lowered, index=domains.index[far])
    return results_of(domains), domains


@pytest.fixture(scope="module")
def page(study, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "page.html"
    write_page(*study, path, published=published())
    return path


@pytest.fixture(scope="module")
def visit(page, tmp_path_factory):
    return visited(page, tmp_path_factory.mktemp("visit"), VISITOR, ["--window-size=1200,900"])


@pytest.fixture(scope="module")
def narrow_visit(page, tmp_path_factory):
    return visited(page, tmp_path_factory.mktemp("visit"), NARROW, ["--window-size=500,900"])


@pytest.fixture(scope="module")
def hostile_visit(hostile_results, hostile_domains, tmp_path_factory):
    folder = tmp_path_factory.mktemp("visit")
    write_page(hostile_results, hostile_domains, folder / "page.html", settings={HOSTILE: HOSTILE})
    return visited(folder / "page.html", folder, WITH_NAMES)


def explored(study, dataset="synthetic-10", method="set-cover", target=0.9, seed=None):
    _, domains = study
    rows = domains[(domains["dataset"] == dataset) & (domains["method"] == method) & (domains["split"] == "unseen")]
    rows = rows[rows["target_recall"] == target]
    return rows if seed is None else rows[rows["seed"] == seed]


def test_plots_wait_until_they_come_near_and_then_all_are_drawn_under_the_page_s_own_policy(visit):
    assert visit.found["lazy"] < visit.found["plots"] == visit.found["places"] > 2 * 5


def test_the_paper_s_figures_are_drawn_without_a_legend_in_each_plot(visit):
    assert visit.found["panels"] == ["figure-1-1"]
    assert visit.found["legends"] == 0


def test_the_console_stays_empty_and_nothing_is_asked_of_the_network(visit, narrow_visit, hostile_visit):
    assert [one.console for one in (visit, narrow_visit, hostile_visit)] == [[], [], []]
    assert visit.found["resources"] == 0


def test_the_plots_show_the_first_comparison_and_ticking_the_box_adds_its_single_domains(visit):
    n_methods = len(COMPARISONS["sets"])
    assert visit.found["crosses"] == n_methods
    assert visit.found["points"] == n_methods + n_methods * 2 * 6


def test_pointing_at_a_domain_tells_its_numbers(visit):
    for words in ("Domain", "domain 0", "Min recall", "Recall by label", "Examples"):
        assert words in visit.found["tooltip"]
    assert re.search(r"\b1: [01]\.\d{3}", visit.found["tooltip"])


def test_a_click_in_the_legend_dims_the_other_methods(visit):
    assert visit.found["bright"] == 2
    assert visit.found["dim"] == 2 * (len(COMPARISONS["sets"]) - 1)


def test_the_legend_is_hollow_for_methods_that_are_not_the_papers(visit):
    assert visit.found["hollow"] == [KNOWN_METHODS[method].ours for method in COMPARISONS["sets"]]


def test_pointing_at_an_outlier_names_its_domain(visit):
    assert re.search("Domaindomain 2.*Seed0.*Min recall0.300", visit.found["outlier"])


def test_another_target_and_comparison_can_be_chosen(visit):
    assert visit.found["title"] == "Share of unseen domains at target 0.8"
    assert visit.found["chosen"] == ["ERM", "SET-COVER"]  # of the single-label methods, only ERM has this target


def test_bars_and_boxes_stand_side_by_side_and_their_rows_line_up(visit):
    shares, recalls = visit.found["heights"]
    assert shares == recalls
    assert len(shares) >= len(COMPARISONS["sets"])
    assert visit.found["figures"][0] < visit.found["figures"][1]


def test_bars_and_boxes_stand_one_below_the_other_where_it_is_narrow(narrow_visit):
    assert narrow_visit.found["figures"][0] == narrow_visit.found["figures"][1]


def test_no_text_of_a_plot_is_cut_and_no_page_wider_than_its_window(visit, narrow_visit):
    assert [(one.found["cut"], one.found["overflow"]) for one in (visit, narrow_visit)] == [([], 0), ([], 0)]


def test_bars_and_boxes_are_described_to_those_who_cannot_see_them(visit):
    assert [said.split(",")[0] for said in visit.found["said"]] == [
        "Share of unseen domains at target 0.9",
        "Median min recall of unseen domains",
    ]


def test_the_explorer_lists_the_domains_of_set_cover_worst_first_and_counts_those_below(visit, study):
    rows = explored(study)
    shown = [float(recall) for recall in visit.found["recalls"]]
    assert shown == pytest.approx(np.sort(rows["min_recall"]), abs=5.6e-4)  # rounded twice, to 4 digits and to 3
    n_below = (rows["min_recall"] < 0.9).sum()
    assert visit.found["count"] == f"{n_below} of 12 domains below 0.9, 2 seeds together."
    assert visit.found["sortedBy"] == ["Min recall"]


def test_the_explorer_has_a_column_and_a_mark_for_every_label(visit):
    assert visit.found["heads"][5:7] == ["Recall of 0", "Recall of 1"]
    assert visit.found["track"] == 2


def test_a_head_of_the_explorer_sorts_by_it_in_both_directions_and_keeps_the_focus(visit):
    sizes = [float(size) for size in visit.found["sizes"]]
    assert sizes == sorted(sizes, reverse=True)
    assert visit.found["descending"] == ["Set size"]
    assert visit.found["focused"] == "set_size"


def test_the_explorer_can_be_searched_and_kept_to_domains_below_target(visit, study):
    assert len(visit.found["below"]) == (explored(study)["min_recall"] < 0.9).sum()
    assert visit.found["searched"] == ["domain 3", "domain 3"]


def test_the_explorer_switches_data_set_method_target_and_seed(visit, study):
    rows = explored(study, "votes", "robust", 0.8, 1)
    assert visit.found["switched"] == f"{(rows['min_recall'] < 0.8).sum()} of 6 domains below 0.8."
    assert visit.found["targets"] == ["0.9"]  # the only one of IRM


def test_hostile_names_are_shown_and_never_run(hostile_visit):
    name, found = HOSTILE.rstrip("\u2028"), hostile_visit.found
    assert "data-alarm" not in hostile_visit.dom.split("<body", 1)[0].split("<head", 1)[0]
    assert found["tags"] == 0
    assert name in found["tooltip"]
    assert all(name in shown for shown in (found["domain"], found["heads"][5], found["titles"], found["methods"][1]))


def test_every_known_method_is_in_the_study(study):
    assert set(study[0]["method"]) == set(KNOWN_METHODS)
