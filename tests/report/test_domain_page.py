"""The page of domains: what it says, and what a real browser makes of it."""

import html
import json
import re
import subprocess
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from domaincover import InputError, certify
from domaincover.report.domain_reports import worst_first
from domaincover.report.domain_table import domain_columns
from domaincover.report.pages import write_domain_page
from tests.deep import deep
from tests.paper.study_report.made_up import HOSTILE
from tests.paper.study_report.test_page import Page
from tests.paper.study_report.test_page_in_browser import ALARM, BROWSER, FLAGS
from tests.processes import LIMIT

from .made_up_domains import random_reports, report

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


class Visit(NamedTuple):
    dom: str
    found: dict[str, object]
    console: list[str]


NAN = np.nan
in_browser = pytest.mark.skipif(BROWSER is None, reason="chromium is not installed")


def written(folder, reports, target_recall=0.9, **options):
    path = folder / "page.html"
    write_domain_page(path, reports, target_recall, **{"title": "How it does"} | options)
    return path.read_text(encoding="utf-8")


def hostile_reports():
    names, labels = [f"{HOSTILE} {k}" for k in range(20)], (HOSTILE, "'\"", "</script>")
    recalls = np.random.default_rng(0).uniform(0.8, 1, (20, 3))
    return {HOSTILE: report(recalls, names, labels), "<b>": report(recalls - 0.1, names, labels)}


@pytest.fixture(scope="module")
def reports():
    return random_reports(np.random.default_rng(0), 24)


@pytest.fixture(scope="module")
def text(reports, tmp_path_factory):
    options = {"notes": ["Seen and unseen domains look alike."], "settings": {"model": "m.safetensors"}}
    return written(tmp_path_factory.mktemp("page"), reports, **options)


@pytest.fixture(scope="module")
def hostile_text(tmp_path_factory):
    options = {"title": HOSTILE, "notes": [HOSTILE], "settings": {HOSTILE: HOSTILE}}
    return written(tmp_path_factory.mktemp("page"), hostile_reports(), **options)


def test_the_page_loads_nothing_and_forbids_network_and_eval(text):
    page = Page(text)
    addresses = [attrs[name] for _, attrs in page.tags for name in ("src", "href") if name in attrs]
    policy = next(meta["content"] for meta in page.all("meta") if meta.get("http-equiv"))
    assert addresses == ["#results"]
    assert "default-src 'none'" in policy
    assert "unsafe-eval" not in policy


def test_headline_notes_and_settings_are_on_the_page(text, reports):
    n_held = int((reports["SET-COVER"].min_recall >= 0.9).sum())
    assert f'<p class="headline">In {n_held} of 24 unseen domains every label' in text
    assert "<li>Seen and unseen domains look alike.</li>" in text
    assert "<dt>model</dt><dd>m.safetensors</dd>" in text


def test_the_summary_has_a_row_per_method_and_the_table_one_per_domain(text):
    summary, domains = Page(text).tables
    assert [row[0] for row in summary] == ["Method", "SET-COVER", "ERM"]
    assert len(domains) == 25


def test_the_table_has_every_recall_of_the_reports(reports):
    columns = {column.head: column.cells for column in domain_columns(worst_first(reports, 0.9))}
    shown = {
        cell.text: recall.value for cell, recall in zip(columns["Domain"], columns["Recall of label 1"], strict=True)
    }
    model = reports["SET-COVER"]
    for name, recall in zip(model.domain_names, model.recall[:, 1], strict=True):
        assert shown[name] == (None if np.isnan(recall) else pytest.approx(recall, abs=1e-6))


def test_recalls_below_the_target_are_marked_in_the_table():
    columns = domain_columns({"a": report([[0.89, 0.9, NAN]]).under(0.9)})
    marked = {column.head: column.cells[0].below for column in columns if "ecall" in column.head}
    assert marked == {"Min recall": True, "Recall of cat": True, "Recall of dog": False, "Recall of owl": None}


def test_every_table_has_a_caption_and_heads_with_a_scope(text):
    page = Page(text)
    assert len(page.all("caption")) == len(page.tables)
    assert all(head.get("scope") in ("row", "col") for head in page.all("th"))


def test_one_head_says_that_the_table_is_sorted_by_it(text):
    assert [head["aria-sort"] for head in Page(text).all("th") if "aria-sort" in head] == ["ascending"]


def test_every_section_is_labelled_by_an_element_that_exists(text):
    page = Page(text)
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert {section["aria-labelledby"] for section in page.all("section")} <= set(ids)


@pytest.mark.parametrize(("n_domains", "n_searches"), [(1, 0), (15, 1), (365, 1)])
def test_the_page_grows_with_the_number_of_domains(tmp_path, n_domains, n_searches):
    text = written(tmp_path, random_reports(np.random.default_rng(0), n_domains))
    assert len(Page(text).all("input")) == n_searches
    assert len(Page(text).tables[-1]) == n_domains + 1


def marks(text, look):
    """Return the words of the marks of a look, as the domains stand on the page."""
    return [attrs["title"] for tag, attrs in Page(text).tags if tag == "span" and attrs.get("class") == look]


def test_a_domain_has_a_mark_for_every_recall_and_a_ring_for_the_baseline(text, reports):
    recall = reports["SET-COVER"].recall
    assert len(marks(text, "dot miss")) == int((recall < 0.9).sum())
    assert len(marks(text, "dot")) == int((recall >= 0.9).sum())
    assert len(marks(text, "ring")) == 24
    lowest = int(np.nanargmin(np.nanmin(recall, axis=1)))
    assert f"label {np.nanargmin(recall[lowest])}: {np.nanmin(recall):.3f} (n = 100)" in marks(text, "dot miss")


def test_marks_stand_where_the_recall_is_on_an_axis_that_holds_them_all(tmp_path):
    text = written(tmp_path, {"model": report([[0.95, NAN, 0.8]])})
    places = re.findall(r'class="(?:dot|dot miss|line)" style="left:([\d.]+)%"', text)
    axis = float(re.search(r'Recall by label<span class="scale"><span>([\d.]+)', text)[1])
    assert [axis + float(place) / 100 * (1 - axis) for place in places] == pytest.approx([0.9, 0.95, 0.8], abs=1e-4)


@pytest.mark.slow
def test_365_domains_of_30_labels_fit_in_3_megabytes(tmp_path):
    assert len(written(tmp_path, random_reports(np.random.default_rng(0), 365, n_labels=30))) < 3_000_000


def test_a_model_alone_makes_a_page_without_rings(tmp_path):
    text = written(tmp_path, {"SET-COVER": report([[0.95, NAN, 0.8]])})
    assert ", ring: " not in text
    assert marks(text, "ring") == []


def test_hostile_names_are_only_text(hostile_text):
    page = Page(hostile_text)
    assert len(page.all("script")) == 1
    assert page.all("img") == []
    assert len(page.all("b")) == 1  # how many sets have one label
    assert not any("onerror" in attrs for _, attrs in page.tags)
    assert any(HOSTILE in text for text in page.texts)


def test_the_same_reports_make_the_same_page(reports, tmp_path):
    assert written(tmp_path, reports) == written(tmp_path, reports)


def test_reports_that_do_not_belong_together_make_no_page(tmp_path):
    with pytest.raises(InputError, match="do not have the same domains"):
        written(tmp_path, {"a": report([[0.9] * 3]), "b": report([[0.9] * 3] * 2)})
    assert list(tmp_path.iterdir()) == []


# Sorts by set size and by the last label's recall, twice each, then searches and sorts by name.
VISITOR = """
const found = {};
const all = (selector) => [...document.querySelectorAll(selector)];
const sizes = () => all("#domain-table tbody tr").map((row) => Number(row.cells[6].textContent));
const recalls = () => all("#domain-table tbody tr").map((row) => row.cells[row.cells.length - 1].textContent);
const head = (i) => all("#domain-table thead th")[i];
const steps = [
  [() => head(6), () => {
    found.scrolls = document.documentElement.scrollWidth > document.documentElement.clientWidth;
    head(6).querySelector("button").click();
    found.rising = sizes();
    found.sorted = head(6).getAttribute("aria-sort");
    head(6).querySelector("button").click();
    found.falling = sizes();
    found.heads = all("[aria-sort]").length;
    all("#domain-table thead button").at(-1).click();
    found.recalls = recalls();
    all("#domain-table thead button").at(-1).click();
    found.recallsFalling = recalls();
    const search = document.getElementById("search");
    search.value = " 7";
    search.dispatchEvent(new Event("input"));
    head(0).querySelector("button").click();
    found.rows = all("#domain-table tbody tr:not([hidden])").map((row) => row.cells[0].textContent);
    found.status = document.getElementById("found").textContent;
  }],
];
"""


def visited(text, folder, *flags):
    page = folder / "page.html"
    script = f"<script>{{{VISITOR}{RUN}}}</script></body>"
    page.write_text(script.join(text.replace("<head>", ALARM, 1).rsplit("</body>", 1)), encoding="utf-8")
    command = [BROWSER, *FLAGS, *flags, f"--user-data-dir={folder / 'profile'}", page.as_uri()]
    run = subprocess.run(command, capture_output=True, timeout=LIMIT, check=True)
    dom, log = run.stdout.decode(), run.stderr.decode(errors="replace")
    done = re.search('data-found="(.*?)"', dom)
    assert done, f"stopped at step {re.findall('data-waiting=.([0-9]+)', dom)}: {log}"
    found = json.loads(html.unescape(done[1]))
    return Visit(dom, found, [line for line in log.splitlines() if "CONSOLE" in line])


@pytest.fixture(scope="module")
def visit(text, tmp_path_factory):
    return visited(text, tmp_path_factory.mktemp("visit"))


@pytest.fixture(scope="module")
def hostile_visit(hostile_text, tmp_path_factory):
    return visited(hostile_text, tmp_path_factory.mktemp("visit"), "--window-size=420,900")


@in_browser
def test_the_console_stays_empty(visit, hostile_visit):
    assert visit.console == []
    assert hostile_visit.console == []


@in_browser
def test_a_click_on_a_head_sorts_by_it_and_a_second_turns_it_round(visit):
    sizes = visit.found["rising"]
    assert sizes == sorted(sizes)
    assert len(sizes) == 24
    assert visit.found["sorted"] == "ascending"
    assert visit.found["falling"] == sizes[::-1]
    assert visit.found["heads"] == 1


@in_browser
def test_absent_recalls_stay_last_in_both_directions(visit, reports):
    n_absent = int(np.isnan(reports["SET-COVER"].recall[:, 2]).sum())
    assert n_absent > 0
    assert visit.found["recalls"][-n_absent:] == visit.found["recallsFalling"][-n_absent:] == ["–"] * n_absent


@in_browser
def test_a_search_leaves_the_rows_whose_name_holds_the_text(visit):
    assert visit.found["rows"] == ["ward 7", "ward 17"]
    assert visit.found["status"] == "2 of 24 domains"


@in_browser
def test_no_page_is_wider_than_its_window(visit, hostile_visit):
    assert not visit.found["scrolls"]
    assert not hostile_visit.found["scrolls"]


@in_browser
def test_hostile_names_never_run(hostile_visit):
    assert "data-alarm" not in hostile_visit.dom.split("<body", 1)[0].split("<head", 1)[0]


# The certificate


def hostile_certificate():
    return certify(hostile_reports()[HOSTILE], 0.85)


@pytest.fixture(scope="module")
def certified(reports, tmp_path_factory):
    options = {"certificate": certify(reports["SET-COVER"], 0.9), "certificate_notes": ["It is about another model."]}
    return written(tmp_path_factory.mktemp("page"), reports, **options)


def test_without_a_certificate_there_is_no_block(text):
    assert "about the next domain" not in text


def test_the_block_says_the_counts_the_bounds_and_what_they_rest_on(certified, reports):
    found = certify(reports["SET-COVER"], 0.9).domains
    words = " ".join(html.unescape(re.sub(r"<[^>]+>", " ", certified.split('id="certificate"')[1])).split())
    assert f"with 95 % confidence ≥ {np.floor(100 * found.next_at_least) / 100:.2f}" in words
    assert "The model saw none of them in training" in words
    assert "What it does not say" in words
    assert "It is about another model." in words


def test_the_block_has_a_row_for_all_labels_and_one_for_each(certified, reports):
    rows, _, _ = Page(certified).tables
    assert [row[0] for row in rows] == ["Label", "All labels", "label 0", "label 1", "label 2"]
    found = certify(reports["SET-COVER"], 0.9)
    for row, one in zip(rows[1:], (found.domains, *found.labels.values()), strict=True):
        assert row[1] == f"{one.n_at_target} of {one.n_domains}"
        assert row[5] == f"{one.n_shown} / {one.n_undecided} / {one.n_shown_below}"


def test_bars_lie_where_the_interval_does_and_readers_of_the_screen_are_spared(certified, reports):
    found = certify(reports["SET-COVER"], 0.9)
    bars = [attrs for tag, attrs in Page(certified).tags if tag == "span" and attrs.get("class") == "range"]
    for bar, one in zip(bars, (found.domains, *found.labels.values()), strict=True):
        left, length = (float(number) for number in re.findall(r":([\d.]+)%", bar["style"]))
        assert left == pytest.approx(100 * one.low, abs=0.01)
        assert left + length == pytest.approx(100 * one.high, abs=0.02)
    hidden = [attrs.get("aria-hidden") for _, attrs in Page(certified).tags if attrs.get("class") == "bar"]
    assert hidden == ["true"] * len(bars)


def test_a_label_in_no_domain_has_no_bar(tmp_path):
    given = {"model": report([[1, NAN], [0.95, NAN]], labels=("cat", "dog"))}
    text = written(tmp_path, given, certificate=certify(given["model"], 0.9))
    assert Page(text).tables[0][3][1:5] == ["in no domain", "", "–", "–"]
    assert text.count('class="bar"') == 2


def test_a_bound_of_nothing_is_told_in_words(tmp_path):
    given = {"model": report([[0.5, 0.5], [0.4, 1]], labels=("cat", "dog"))}
    text = written(tmp_path, given, certificate=certify(given["model"], 0.9))
    assert 'class="figures"' not in text
    assert "From these 2 domains nothing can be promised about the next one." in text
    assert "≥ 0.00" not in text


def test_a_certified_page_keeps_heads_sections_and_captions_in_order(certified):
    page = Page(certified)
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert {section["aria-labelledby"] for section in page.all("section")} <= set(ids)
    assert len(page.all("caption")) == len(page.tables)
    assert all(head.get("scope") in ("row", "col") for head in page.all("th"))


def test_hostile_labels_and_notes_are_escaped_in_the_block(tmp_path):
    options = {"certificate": hostile_certificate(), "certificate_notes": [HOSTILE]}
    block = written(tmp_path, hostile_reports(), **options).split('id="certificate"')[1].split("</section>")[0]
    assert "<script" not in block
    assert "<img" not in block
    assert "&lt;" in block


@in_browser
@pytest.mark.parametrize("width", [320, *deep(400, 1200)])
def test_the_certificate_fits_the_width_of_the_window(certified, tmp_path, width):
    frame = f'<iframe src="page.html" style="width:{width}px;height:900px;border:0" onload="measure(this)"></iframe>'
    script = "function measure(f){document.body.dataset.wide=f.contentDocument.documentElement.scrollWidth}"
    (tmp_path / "page.html").write_text(certified, encoding="utf-8")
    (tmp_path / "frame.html").write_text(f"<body><script>{script}</script>{frame}</body>", encoding="utf-8")
    flags = [*FLAGS, "--allow-file-access-from-files", f"--user-data-dir={tmp_path / 'profile'}"]
    command = [BROWSER, *flags, (tmp_path / "frame.html").as_uri()]
    run = subprocess.run(command, capture_output=True, timeout=LIMIT, check=True)
    assert int(re.search(r'data-wide="(\d+)"', run.stdout.decode())[1]) <= width


def test_the_first_sentence_leaves_the_other_thresholds_of_the_model_to_the_table(tmp_path):
    adapted = replace(report([[0.95, 0.93, 0.92]]), thresholds="adapted")
    fixed = replace(report([[0.99, 0.98, 0.97]], set_size=2.5), thresholds="fixed")
    text = written(tmp_path, {"adapted": adapted, "fixed": fixed, "ERM": report([[0.5, 0.9, 0.9]], set_size=1)})
    headline = re.search(r'<p class="headline">(.*?)</p>', text)[1]
    assert "fixed" not in headline
    assert "ERM" in headline
    assert [row[0] for row in Page(text).tables[0]] == ["Method", "adapted", "fixed", "ERM"]
