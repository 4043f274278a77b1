import base64
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from domaincover.errors import InputError
from domaincover.paper.published import published
from domaincover.paper.study_report.page import write_page

from .made_up import (
    HOSTILE,
    METHODS,
    SECONDS,
    full_study,
    made_up_theory,
    results_of,
)


class Page(HTMLParser):
    """The tags, the tables and the text of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.tables, self.texts = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_data(self, data):
        self.texts.append(data)
        if self.tables and self.tables[-1] and self.tables[-1][-1]:
            self.tables[-1][-1][-1] += data.strip()

    def all(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]


def written(path, *study, **options):
    write_page(*study, path, **options)
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def text(results, domains, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    return written(path, results, domains, settings={"seeds": "0, 1", "torch": "2.13.0"})


@pytest.fixture(scope="module")
def full_text(tmp_path_factory):
    """Return the page of two targets with everything that a page can have."""
    domains = full_study(np.random.default_rng(0), ("synthetic-10",), n_seeds=2, n_domains=5, targets=(0.8, 0.9))
    return written(
        tmp_path_factory.mktemp("page") / "report.html",
        results_of(domains),
        domains,
        published=published(),
        times=SECONDS,
        theory=made_up_theory(),
    )


@pytest.fixture(scope="module")
def hostile_text(hostile_results, hostile_domains, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    return written(path, hostile_results, hostile_domains, settings={HOSTILE: HOSTILE})


def test_the_page_loads_nothing(text):
    addresses = [attrs[name] for _, attrs in Page(text).tags for name in ("src", "href") if name in attrs]
    assert addresses
    assert all(address.startswith(("#", "data:image/svg+xml;base64,")) for address in addresses)
    assert not Page(text).all("link")


def test_the_policy_forbids_network_and_eval(text):
    policy = next(meta["content"] for meta in Page(text).all("meta") if meta.get("http-equiv"))
    assert "default-src 'none'" in policy
    assert "connect-src 'none'" in policy
    assert "unsafe-eval" not in policy


def test_a_data_set_has_a_table_of_unseen_domains(text):
    assert [len(table) - 1 for table in Page(text).tables] == 2 * [len(METHODS)]


def pictures(text):
    """Return the title and the SVG of every figure of a page."""
    drawn = [(image["alt"], image["src"].partition("base64,")[2]) for image in Page(text).all("img")]
    return [(words, base64.b64decode(content).decode()) for words, content in drawn]


def test_the_figures_of_a_study_are_pictures_with_their_captions_in_words(text):
    found = pictures(text)
    assert [words.partition(" at target")[0] for words, _ in found] == [
        "Min recall against set size",
        "Share of unseen domains",
        "Min recall of unseen domains",
        "Share of unseen domains",
    ]
    assert all(">SET-COVER<" in svg and svg.startswith("<svg") for _, svg in found)
    assert "Right of the target is safe." in found[2][0]


def test_the_papers_figures_stand_in_their_sections_and_others_below(full_text):
    sections = {found.partition('"')[0]: found for found in full_text.split('<section aria-labelledby="')[1:]}
    assert [words[:9] for words, _ in pictures(sections["figure-1"])] == ["Figure 1."]
    others = [words for words, _ in pictures(sections["figures"])]
    assert any("by target recall" in words for words in others)
    assert [words[:17] for words, _ in pictures(sections["theory"])] == ["New domains below"]


def test_the_page_links_to_files_beside_it(results, domains, tmp_path):
    page = Page(written(tmp_path / "a.html", results, domains, files={"main.csv": "results/main/table.csv"}))
    assert "results/main/table.csv" in [link["href"] for link in page.all("a")]


def test_every_table_has_a_caption_and_heads_with_a_scope(full_text):
    page = Page(full_text)
    assert len(page.all("caption")) == len(page.tables)
    assert all(head.get("scope") in ("row", "col", "rowgroup", "colgroup") for head in page.all("th"))


def test_the_page_has_landmarks_and_one_heading_of_the_first_level(text):
    page = Page(text)
    assert [len(page.all(tag)) for tag in ("header", "nav", "main", "footer", "h1")] == [1, 1, 1, 1, 1]
    assert page.all("html") == [{"lang": "en"}]


def test_every_section_and_every_link_leads_to_an_element_that_exists(full_text):
    page = Page(full_text)
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert {section["aria-labelledby"] for section in page.all("section")} <= set(ids)
    assert {link["href"].removeprefix("#") for link in page.all("a")} <= set(ids)


def test_settings_are_listed_and_left_out_when_there_are_none(text, full_text):
    assert "<dt>torch</dt><dd>2.13.0</dd>" in text
    assert '<h2 id="settings">' not in full_text


def test_the_table_of_a_data_set_has_the_main_target_first(full_text):
    table = next(table for table in Page(full_text).tables if table and "Share by chance alone" in table[0])
    assert [row[1] for row in table[1:]] == ["0.9"] * 16 + ["0.8"] * 5


def exhibit_tables(text):
    """Return the rows of the tables beside the paper by the id of their section."""
    sections = re.split('<section aria-labelledby="', text)[1:]
    found = {section.partition('"')[0]: Page(section).tables for section in sections}
    return {name: tables[0] for name, tables in found.items() if name.startswith("table-") and tables}


def test_the_paper_s_page_opens_with_its_title_authors_venue_and_an_index_in_its_order(full_text):
    paper = published()
    assert f"<h1>{paper.title}</h1>" in full_text
    assert all(author in full_text for author in paper.authors)
    links = [link["href"] for link in Page(full_text.partition("<main")[0]).all("a")]
    names = [f"#{exhibit.slug}" for exhibit in paper.exhibits]
    assert [link for link in links if link in names] == names
    assert len(names) == 6 + 12
    order = [full_text.index(f'id="{name[1:]}"') for name in (*names, "#ours", "#data-1")]
    assert order == sorted(order)


def test_every_published_row_is_on_the_page_with_its_spread(full_text):
    tables = exhibit_tables(full_text)
    for source, rows in published().results.groupby("source"):
        shown = tables[source.lower().replace(" ", "-")]
        theirs = [row for row in shown if len(row) == 10 and row[8] not in ("paper", "–")]
        assert len(theirs) == len(rows)
    camelyon = next(row for row in tables["table-1"] if row[0].endswith("Robust conformal"))
    numbers = [text for text in camelyon[1:] if text not in ("–", "not run")]
    assert numbers == ["0.98 ± 0.01", "1.79 ± 0.16", "93 ± 5 %"]


def test_our_numbers_stand_beside_the_paper_s_with_the_difference(tmp_path):
    domains = full_study(np.random.default_rng(0), ("synthetic-10-random",), n_seeds=2, n_domains=5, targets=(0.9,))
    results = results_of(domains)
    text = written(tmp_path / "a.html", results, domains, published=published())
    row = next(row for row in exhibit_tables(text)["table-5"] if row[0].endswith("SET-COVER"))
    own = results[(results["method"] == "set-cover") & (results["split"] == "unseen")].iloc[0]
    assert row[1] == f"{own['min_recall']:.2f} ± {own['min_recall_std']:.2f}"
    assert row[2] == "0.94"
    assert row[4] == f"{own['set_size']:.2f} ± {own['set_size_std']:.2f}"
    assert row[8] == "92 %"


def test_what_was_not_run_is_folded_into_one_line(tmp_path):
    domains = full_study(np.random.default_rng(0), ("synthetic-10-random",), n_seeds=2, n_domains=5, targets=(0.9,))
    for times in (None, SECONDS):
        text = written(tmp_path / "a.html", results_of(domains), domains, published=published(), times=times)
        sections = {found.partition('"')[0]: found for found in text.split('<section aria-labelledby="')[1:]}
        folded = {
            exhibit.slug
            for exhibit in published().exhibits
            if 'class="folded"><details>' in _one_line(sections[exhibit.slug])
        }
        assert {"table-1", "figure-2", "table-6", "figure-6"} <= folded
        assert not {"figure-3", "table-5"} & folded
        assert ("table-9" in folded) == (times is None)
        assert Page(sections["table-1"]).tables, "nothing of it is lost"


def _one_line(html):
    return re.sub(r">\s+<", "><", html)


def test_a_quick_run_has_the_paper_s_index_but_none_of_its_numbers_and_says_so(tmp_path):
    domains = full_study(np.random.default_rng(0), ("synthetic-10-random",), n_seeds=2, n_domains=5, targets=(0.9,))
    results = results_of(domains).assign(note="quick run: not the paper's setting")
    text = written(tmp_path / "a.html", results, domains, published=published(), times=SECONDS.assign(note="quick run"))
    beside = [cell for table in exhibit_tables(text).values() for row in table for cell in row if len(row) == 10]
    assert "0.98 ± 0.01" not in beside
    assert text.count("uick run: not the paper&#39;s setting") > 3


def test_a_study_that_is_not_the_paper_s_has_no_frame_of_the_paper(text):
    assert "Figure 1" not in text
    assert "beyond the paper" not in text
    assert "<h1>Prediction sets in new domains</h1>" in text


def test_times_stand_in_the_paper_s_table_or_in_a_section_of_their_own(text, full_text, results, domains, tmp_path):
    table = exhibit_tables(full_text)["table-9"]
    assert [row[:4] for row in table if row[0].startswith("Camelyon17")] == [
        ["Camelyon17, by patient"] + 3 * ["not run"]
    ]
    assert "1.24 to 1.36 in the paper" in full_text
    assert 'id="theory"' not in text
    assert 'id="times"' not in text
    assert 'id="times"' in written(tmp_path / "a.html", results, domains, times=SECONDS)


def test_hostile_names_are_only_text(hostile_text):
    page = Page(hostile_text)
    assert page.all("script") == []
    assert not any("onerror" in attrs for _, attrs in page.tags)
    assert any(HOSTILE in text for text in page.texts)


def test_results_without_unseen_domains_make_a_page_that_claims_nothing(results, domains, tmp_path):
    text = written(tmp_path / "a.html", results[results["split"] == "train"], domains)
    assert "they say nothing about new ones" in text
    assert text.count("No unseen domains were evaluated.") == 2
    assert Page(text).all("figure") == []


def test_the_same_results_make_the_same_page(text, results, domains, tmp_path):
    assert written(tmp_path / "a.html", results, domains, settings={"seeds": "0, 1", "torch": "2.13.0"}) == text


def test_empty_results_make_no_page(domains, tmp_path):
    with pytest.raises(InputError, match="results is empty"):
        write_page(pd.DataFrame(), domains, tmp_path / "a.html")
    assert list(tmp_path.iterdir()) == []
