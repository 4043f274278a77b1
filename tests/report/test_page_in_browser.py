"""The page in a real browser: what is drawn, what can be clicked, and that no name runs as code."""

import html
import json
import re
import shutil
import subprocess
from typing import NamedTuple

import numpy as np
import pytest

from domaincover.report.page import write_page
from domaincover.report.style import KNOWN_METHODS

from .made_up import HOSTILE, METHODS, random_domains, results_of

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--enable-logging=stderr", "--virtual-time-budget=10000", "--dump-dom"),
]
pytestmark = pytest.mark.skipif(BROWSER is None, reason="chromium is not installed")

# Shows the single domains of the first plot, points at the first of them, then clicks on SET-COVER in the legend.
VISITOR = """<script>
const found = {};
const all = (selector) => [...document.querySelectorAll("#chart-1 " + selector)];
const send = (element, types, box) => types.forEach((type) => element.dispatchEvent(
  new MouseEvent(type, { bubbles: true, clientX: box.x + 2, clientY: box.y + 2 })));
const opacities = () => all(".mark-rule.role-mark line[opacity]").map((line) => Number(line.getAttribute("opacity")));
const steps = [
  () => { all("input[type=checkbox]")[0].click(); },
  () => {
    const points = all(".mark-symbol.role-mark path");
    found.points = points.length;
    send(points[0], ["pointermove", "mousemove"], points[0].getBoundingClientRect());
  },
  () => {
    found.tooltip = document.getElementById("vg-tooltip-element").textContent;
    found.tooltipTags = document.querySelectorAll("#vg-tooltip-element script, #vg-tooltip-element img").length;
    const entry = all(".role-legend-label text").find((label) => label.textContent === "SET-COVER");
    send(entry, ["click"], entry.getBoundingClientRect());
  },
  () => {
    found.bright = opacities().filter((opacity) => opacity === 1).length;
    found.dim = opacities().filter((opacity) => opacity < 1).length;
    document.body.dataset.found = JSON.stringify(found);
  },
];
steps.forEach((step, i) => setTimeout(step, 1500 * (i + 1)));
</script></body>"""

# Points at the first outlier of the first boxes and measures where names, figures and the page end.
MEASURER = """<script>
const found = {};
const namesOf = (kind) => [...document.querySelectorAll(`#${kind}-1 .role-axis-label text`)]
  .filter((text) => !/[0-9]/.test(text.textContent));
const heights = (kind) => namesOf(kind).map((text) => Math.round(text.getBoundingClientRect().y));
const steps = [
  () => {
    const outlier = document.querySelector("#min-recall-1 .mark-symbol.role-mark path");
    const box = outlier.getBoundingClientRect();
    ["pointermove", "mousemove"].forEach((type) => outlier.dispatchEvent(
      new MouseEvent(type, { bubbles: true, clientX: box.x + 2, clientY: box.y + 2 })));
  },
  () => {
    found.tooltip = document.getElementById("vg-tooltip-element").textContent;
    found.heights = [heights("share"), heights("min-recall")];
    const places = ["share-1", "min-recall-1"].map((id) => document.getElementById(id));
    found.figures = places.map((place) => place.getBoundingClientRect().x);
    found.cut = places.filter((place) =>
      [...place.querySelectorAll("svg text")].some((text) => {
        const box = text.getBoundingClientRect();
        const whole = place.querySelector("svg").getBoundingClientRect();
        return box.width > 0 && (box.left < whole.left - 1 || box.right > whole.right + 1);
      })).length;
    found.overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
    found.said = places.map((place) => place.querySelector("[role=graphics-document]").getAttribute("aria-label"));
    document.body.dataset.found = JSON.stringify(found);
  },
];
steps.forEach((step, i) => setTimeout(step, 1500 * (i + 1)));
</script></body>"""


ALARM = "<head><script>window.alert = () => { document.documentElement.dataset.alarm = 'rang'; };</script>"


class Visit(NamedTuple):
    dom: str
    found: dict[str, object]
    console: list[str]


def visited(results, domains, folder, visitor=VISITOR, flags=(), **options):
    page = folder / "page.html"
    write_page(results, domains, page, **options)
    text = page.read_text(encoding="utf-8").replace("<head>", ALARM, 1)
    page.write_text(visitor.join(text.rsplit("</body>", 1)), encoding="utf-8")
    command = [BROWSER, *FLAGS, *flags, f"--user-data-dir={folder / 'profile'}", page.as_uri()]
    run = subprocess.run(command, capture_output=True, timeout=120, check=True)
    dom, log = run.stdout.decode(), run.stderr.decode(errors="replace")
    found = json.loads(html.unescape(re.search('data-found="(.*?)"', dom)[1]))
    return Visit(dom, found, [line for line in log.splitlines() if "CONSOLE" in line])


@pytest.fixture(scope="module")
def visit(results, domains, tmp_path_factory):
    return visited(results, domains, tmp_path_factory.mktemp("visit"))


@pytest.fixture(scope="module")
def all_methods():
    """Return a study of every known method, where the third domain of each is far below the others."""
    domains = random_domains(np.random.default_rng(0), ("data",), dict.fromkeys(KNOWN_METHODS, (0.95, 1.2)))
    domains["min_recall"] = domains["min_recall"].mask(domains["domain"] == "domain 2", 0.5)
    return results_of(domains), domains


@pytest.fixture(scope="module")
def wide_visit(all_methods, tmp_path_factory):
    return visited(*all_methods, tmp_path_factory.mktemp("visit"), MEASURER, ["--window-size=1200,900"])


@pytest.fixture(scope="module")
def narrow_visit(all_methods, tmp_path_factory):
    return visited(*all_methods, tmp_path_factory.mktemp("visit"), MEASURER, ["--window-size=500,900"])


@pytest.fixture(scope="module")
def hostile_visit(hostile_results, hostile_domains, tmp_path_factory):
    folder = tmp_path_factory.mktemp("visit")
    return visited(hostile_results, hostile_domains, folder, title=HOSTILE, settings={HOSTILE: HOSTILE})


def test_every_plot_is_drawn_under_the_page_s_own_policy(visit):
    assert len(re.findall('<svg[^>]*class="marks"', visit.dom)) == 6


def test_the_console_stays_empty(visit, hostile_visit):
    assert visit.console == []
    assert hostile_visit.console == []


def test_ticking_the_box_shows_every_single_unseen_domain(visit, domains):
    shown = domains[(domains["dataset"] == "synthetic-10") & (domains["split"] == "unseen")]
    assert visit.found["points"] == len(shown) + len(METHODS)


def test_pointing_at_a_domain_tells_its_numbers(visit):
    for words in ("Domain", "domain 0", "Min recall", "Recall by label", "middle: 0.", "Examples"):
        assert words in visit.found["tooltip"]


def test_a_click_in_the_legend_dims_the_other_methods(visit):
    assert visit.found["bright"] == 2
    assert visit.found["dim"] == 2 * (len(METHODS) - 1)


def test_hostile_names_are_shown_and_never_run(hostile_visit):
    assert "data-alarm" not in hostile_visit.dom.split("<body", 1)[0].split("<head", 1)[0]
    assert HOSTILE.rstrip("\u2028") in hostile_visit.found["tooltip"]
    assert hostile_visit.found["tooltipTags"] == 0


def test_pointing_at_an_outlier_names_its_domain(wide_visit):
    assert re.search("Domaindomain 2.*Seed0.*Min recall0.500", wide_visit.found["tooltip"])


def test_bars_and_boxes_stand_side_by_side_and_their_rows_line_up(wide_visit):
    shares, recalls = wide_visit.found["heights"]
    assert len(shares) == len(KNOWN_METHODS)
    assert shares == recalls
    assert wide_visit.found["figures"][0] < wide_visit.found["figures"][1]


def test_bars_and_boxes_stand_one_below_the_other_where_it_is_narrow(narrow_visit):
    (shares, recalls), places = narrow_visit.found["heights"], narrow_visit.found["figures"]
    assert max(shares) < min(recalls)
    assert places[0] == places[1]


def test_no_text_of_bars_and_boxes_is_cut_and_no_page_wider_than_its_window(wide_visit, narrow_visit):
    assert [(visit.found["cut"], visit.found["overflow"]) for visit in (wide_visit, narrow_visit)] == [(0, 0), (0, 0)]
    assert wide_visit.console == narrow_visit.console == []


def test_bars_and_boxes_are_described_to_those_who_cannot_see_them(wide_visit):
    assert [said.split(",")[0] for said in wide_visit.found["said"]] == [
        "Share of unseen domains at target 0.9",
        "Median min recall of unseen domains",
    ]
