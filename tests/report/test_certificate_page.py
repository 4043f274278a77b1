"""The certificate: what it names, what stands on it, and that it prints on two pages."""

import dataclasses
import datetime
import html
import re
import subprocess
from dataclasses import replace

import numpy as np
import pytest

from domaincover import certify, domain_report
from domaincover.evaluation import Tallies
from domaincover.report.pages import write_certificate_page
from tests.paper.study_report.made_up import HOSTILE
from tests.paper.study_report.test_page import Page
from tests.paper.study_report.test_page_in_browser import BROWSER, FLAGS
from tests.processes import LIMIT

PROMISE = "In a new domain drawn like the 40 that calibrated, every label has recall 0.9 or more."
MODEL = {
    "model": "triage",
    "sha256": "0123456789abcdef" * 4,
    "label": "outcome",
    "domain": "hospital",
    "table": "new.csv",
}
ABOUT = {"versions": {"domaincover": "9.8.7", "numpy": "2.0"}, "date": datetime.date(2026, 11, 18)}


def counted(n_domains, n_labels, recall=0.97, name="hospital", n=60):
    """Return a report from sets: each label is in the set of its rows with the given probability."""
    rng = np.random.default_rng(0)
    labels, domains = np.tile(np.arange(n_labels), n_domains * n), np.repeat(np.arange(n_domains), n * n_labels)
    sets = rng.random((len(labels), n_labels)) < 0.5 / n_labels
    sets[np.arange(len(labels)), labels] = rng.random(len(labels)) < recall
    names = tuple(f"{name} label {k}" for k in range(n_labels)), tuple(f"{name} {k}" for k in range(n_domains))
    return domain_report(sets, labels, domains, *names)


def written(folder, report, model=MODEL, **options):
    path = folder / "certificate.html"
    certificate = certify(report, 0.9, seen_domains=["elsewhere"])
    write_certificate_page(path, certificate, report, 0.9, model, **(ABOUT | {"promise": PROMISE} | options))
    return path


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = written(tmp_path_factory.mktemp("page"), counted(30, 3), notes=["One ward is unusual."])
    return html.unescape(path.read_text(encoding="utf-8"))


def test_it_is_called_a_certificate_and_names_date_model_table_and_versions(text):
    assert "<h1>Certificate</h1>" in text
    listed = dict(re.findall(r"<dt>(.*?)</dt><dd[^>]*>(.*?)</dd>", text))
    assert listed["Date"] == "2026-11-18"
    assert (listed["Model"], listed["SHA-256"]) == ("triage", MODEL["sha256"])
    assert listed["Table"] == "new.csv: 30 domains counted, with 5,400 rows"
    assert listed["Versions"] == "domaincover 9.8.7, numpy 2.0"


def test_rows_of_cells_that_are_too_small_to_count_are_told_beside_all_rows(tmp_path):
    report = counted(12, 2)
    n_by_cell, hits_by_cell, n_by_size = report.tallies
    n_by_cell[3, 1] = hits_by_cell[3, 1] = 13
    small = replace(report, tallies=Tallies(n_by_cell, hits_by_cell, n_by_size))
    page = html.unescape(written(tmp_path, small).read_text(encoding="utf-8"))
    told = "new.csv: 12 domains counted, with 1,393 rows; 1,380 of them count, since a label counts in a domain with 20"
    assert told in page
    assert "new to it, on 1,380 rows" in page


def test_promise_sight_and_statement_stand_in_this_order_above_the_signature(text):
    found = certify(counted(30, 3), 0.9, seen_domains=["elsewhere"])
    parts = [
        PROMISE,
        f"In {found.domains.n_at_target} of 30 domains every label's recall is at least 90 %.",
        "One ward is unusual.",
        "What it rests on",
        f"tried in 30 domains that were new to it, on {found.n_examples:,} rows",
        "This holds if the next domain is drawn like these.",
        "Signature",
    ]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    bound = f"will be at target with a probability of at least {np.floor(100 * found.domains.next_at_least) / 100:.2f}"
    assert bound in text[text.index("tried in 30 domains") :]


def test_a_model_without_a_promise_says_so(tmp_path):
    page = written(tmp_path, counted(12, 2), promise=None).read_text(encoding="utf-8")
    assert "Nothing was promised when the model was fitted: the target was an aim." in page


def test_the_screen_has_every_domain_and_paper_the_worst(tmp_path):
    page = Page(written(tmp_path, counted(60, 2)).read_text(encoding="utf-8"))
    rows = page.tables[0]
    assert len(rows) == 61
    recalls = [float(row[2]) for row in rows[1:]]
    assert recalls == sorted(recalls)
    on_screen = [attrs for tag, attrs in page.tags if tag == "tr" and attrs.get("class") == "screen-only"]
    assert len(on_screen) == 60 - 16


def test_paper_has_the_domains_that_miss_before_those_that_pass(tmp_path):
    """Sixteen domains that pass at a lower recall would fill the printed page."""
    n, names = 100, [f"hospital {k}" for k in range(20)]
    hits = np.array([[99, 82]] * 19 + [[93, 99]])
    domains, labels = np.repeat(np.arange(20), 2 * n), np.tile(np.repeat([0, 1], n), 20)
    covered = np.concatenate([np.arange(n) < hit for hit in hits.ravel()])
    sets = (labels[:, None] == np.arange(2)) & covered[:, None]
    given = domain_report(sets, labels, domains, ("sick", "well"), tuple(names), 1)
    page = tmp_path / "page.html"
    target = {"sick": 0.95, "well": 0.8}
    write_certificate_page(page, certify(given, target), given, target, MODEL, **ABOUT)
    rows = re.findall(r'<th scope="row" class="text name">(hospital \d+)</th>', page.read_text())
    assert rows[0] == "hospital 19"


def test_true_recall_is_not_on_a_page_about_thresholds_that_rows_set(tmp_path):
    fixed, adapted = (dataclasses.replace(counted(30, 3), thresholds=kind) for kind in ("fixed", "adapted"))
    assert "truly" in written(tmp_path, fixed).read_text()
    page = written(tmp_path, adapted).read_text()
    assert "truly" not in page
    assert "Nothing is said about true recall here" in page
    assert "None" not in page


def test_labels_with_the_lowest_bounds_come_first(tmp_path):
    rows = Page(written(tmp_path, counted(20, 12, recall=0.93)).read_text(encoding="utf-8")).tables[1]
    assert rows[1][0] == "All labels"
    bounds = [float(row[4]) for row in rows[2:]]
    assert bounds == sorted(bounds)


def test_nothing_about_the_next_domain_is_stated_as_that(tmp_path):
    page = written(tmp_path, counted(2, 2, recall=0.5)).read_text(encoding="utf-8")
    statement = page[page.index("tried in 2 domains") :]
    assert "From these 2 domains nothing can be promised about the next one." in statement


def test_hostile_names_are_only_text(tmp_path):
    model = dict.fromkeys(MODEL, HOSTILE)
    page = Page(
        written(tmp_path, counted(3, 2, name=HOSTILE), model, promise=HOSTILE, notes=[HOSTILE]).read_text(
            encoding="utf-8"
        )
    )
    assert page.all("script") == page.all("img") == page.all("b") == []
    assert any(HOSTILE in text for text in page.texts)


@pytest.mark.skipif(BROWSER is None, reason="chromium is not installed")
@pytest.mark.parametrize(
    ("n_domains", "n_labels", "name"),
    [(60, 3, "hospital"), (60, 50, "the university hospital of the western province, ward")],
)
def test_it_prints_on_two_pages(tmp_path, n_domains, n_labels, name):
    page, paper = written(tmp_path, counted(n_domains, n_labels, name=name)), tmp_path / "certificate.pdf"
    flags = [flag for flag in FLAGS if flag != "--dump-dom"]
    command = [BROWSER, *flags, f"--user-data-dir={tmp_path / 'profile'}", f"--print-to-pdf={paper}", page.as_uri()]
    subprocess.run(command, capture_output=True, check=True, timeout=LIMIT)
    assert len(re.findall(rb"/Type\s*/Page\b", paper.read_bytes())) == 2
