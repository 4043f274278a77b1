import json
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from domaincover.errors import InputError
from domaincover.report.comparisons import compared_methods, recall_boxes
from domaincover.report.page import chart_library, packed, write_page

from .made_up import HOSTILE, METHODS, random_domains, results_of


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


@pytest.fixture(scope="module")
def text(results, domains, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_page(results, domains, path, settings={"seeds": "0, 1", "torch": "2.13.0"})
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def hostile_text(hostile_results, hostile_domains, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_page(hostile_results, hostile_domains, path, title=HOSTILE, settings={HOSTILE: HOSTILE})
    return path.read_text(encoding="utf-8")


def chart_data(text):
    return json.loads(re.search(r'id="chart-data">(.*?)</script>', text, re.DOTALL)[1])


def test_the_page_loads_nothing(text):
    addresses = [attrs[name] for _, attrs in Page(text).tags for name in ("src", "href") if name in attrs]
    assert addresses
    assert all(address.startswith("#") for address in addresses)
    assert not Page(text).all("link")


def test_the_policy_forbids_network_and_eval(text):
    policy = next(meta["content"] for meta in Page(text).all("meta") if meta.get("http-equiv"))
    assert "default-src 'none'" in policy
    assert "connect-src 'none'" in policy
    assert "unsafe-eval" not in policy


def test_the_chart_library_is_there_once_and_cannot_end_its_script(text):
    assert text.count(chart_library()) == 1
    assert "</script" not in chart_library()
    assert "<!--" not in chart_library()


def test_there_is_a_table_of_unseen_domains_per_data_set_and_one_of_everything(text, results):
    tables = Page(text).tables
    assert [len(table) - 1 for table in tables] == [len(METHODS), len(METHODS), len(results)]
    assert tables[0][5][0].endswith("SET-COVER")


def test_every_table_has_a_caption_and_heads_with_a_scope(text):
    page = Page(text)
    assert len(page.all("caption")) == len(page.tables)
    assert all(head.get("scope") in ("row", "col") for head in page.all("th"))


def test_captions_say_how_many_seeds_and_domains_are_averaged(text):
    captions = re.findall("<caption>(.*?)</caption>", text)
    assert all("every number is the mean over 2 seeds of 6 domains each" in caption for caption in captions)


def test_every_head_of_a_number_that_needs_words_has_them(text):
    assert {"Min recall", "Set size", "Share at target", "Share by noise alone", "Train seconds"} <= set(
        re.findall("<dt>(.*?)</dt>", text)
    )


def test_the_page_has_landmarks_and_one_heading_of_the_first_level(text):
    page = Page(text)
    assert [len(page.all(tag)) for tag in ("header", "main", "footer", "h1")] == [1, 1, 1, 1]
    assert page.all("html") == [{"lang": "en"}]


def test_every_section_is_labelled_by_an_element_that_exists(text):
    page = Page(text)
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert {section["aria-labelledby"] for section in page.all("section")} <= set(ids)


def test_settings_are_listed_and_left_out_when_there_are_none(text, results, domains, tmp_path):
    assert "<dt>torch</dt><dd>2.13.0</dd>" in text
    write_page(results, domains, tmp_path / "a.html")
    assert "Settings and versions" not in (tmp_path / "a.html").read_text(encoding="utf-8")


def test_every_chart_has_a_place_and_a_caption(text):
    page = Page(text)
    places = [attrs["id"] for attrs in page.all("div") if "chart" in attrs.get("class", "").split()]
    assert places == [f"{kind}-{i}" for i in (1, 2) for kind in ("chart", "share", "min-recall")]
    assert len(page.all("figcaption")) == len(page.all("figure")) == len(places)


def test_captions_of_the_comparison_name_target_and_seeds(text):
    captions = re.findall("<figcaption>(.*?)</figcaption>", text)
    assert captions[1].startswith("Share of unseen domains where every label’s recall is at least 0.9.")
    assert "domains of 2 seeds together" in captions[2]


def test_the_comparison_holds_no_single_domains_but_outliers(text, results, domains):
    specs = [chart["comparison"]["min-recall"] for chart in chart_data(text)]
    names = ("synthetic-10", "synthetic-10-random")
    for spec, dataset in zip(specs, names, strict=True):
        held = [row for rows in spec["datasets"].values() for row in rows if "domain" in row]
        outliers = recall_boxes(compared_methods(results, dataset), domains).outliers
        assert len(held) == len(outliers) < len(METHODS) * 12


def test_points_are_packed_without_loss(domains, text):
    points = chart_data(text)[0]["points"]
    domain_names = [points["domain"]["texts"][code] for code in points["domain"]["codes"]]
    expected = domains[domains["dataset"] == "synthetic-10"]
    assert domain_names == expected["domain"].tolist()
    assert points["min_recall"] == pytest.approx(expected["min_recall"].tolist(), abs=5e-5)


def test_a_missing_number_is_null_in_packed_points():
    assert packed(pd.DataFrame({"min_recall": [0.5, np.nan]})) == {"min_recall": [0.5, None]}


def test_hostile_names_are_only_text(hostile_text):
    page = Page(hostile_text)
    assert len(page.all("script")) == 3
    assert page.all("img") == []
    assert not any("onerror" in attrs for _, attrs in page.tags)
    assert any(HOSTILE in text for text in page.texts)


def test_embedded_data_has_no_character_that_ends_a_script(hostile_text):
    data = re.search(r'id="chart-data">(.*?)</script>', hostile_text, re.DOTALL)[1]
    assert not set(data) & set("<>&\u2028\u2029")
    assert any(HOSTILE in name for name in chart_data(hostile_text)[0]["points"]["domain"]["texts"])


@pytest.mark.slow
def test_7500_domains_fit_in_3_megabytes(tmp_path):
    domains = random_domains(np.random.default_rng(0), datasets=("a", "b", "c", "d"), n_seeds=5, n_domains=25)
    assert len(domains) == 7500
    write_page(results_of(domains), domains, tmp_path / "a.html")
    assert (tmp_path / "a.html").stat().st_size < 3_000_000


def test_each_target_has_its_own_section(results, domains, tmp_path):
    both = pd.concat([results, results.assign(target_recall=0.8)])
    write_page(both, domains, tmp_path / "a.html")
    text = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert [title for title in re.findall("<h2[^>]*>(.*?)</h2>", text) if "target" in title] == [
        "Synthetic 10-d, shared covariance, target 0.8",
        "Synthetic 10-d, shared covariance, target 0.9",
        "Synthetic 10-d, random covariance, target 0.8",
        "Synthetic 10-d, random covariance, target 0.9",
    ]


def test_results_without_unseen_domains_make_a_page_that_claims_nothing(results, domains, tmp_path):
    write_page(results[results["split"] == "train"], domains, tmp_path / "a.html")
    text = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "they say nothing about new ones" in text
    assert len(Page(text).tables) == 1
    assert len(Page(text).all("figure")) == 2
    assert [chart["comparison"] for chart in chart_data(text)] == [{}, {}]


def test_an_unknown_method_has_the_same_look_in_table_and_plot(tmp_path):
    domains = pd.concat(
        random_domains(np.random.default_rng(0), (name,), {method: (0.9, 1.1)}) for name, method in ["xa", "yb"]
    )
    write_page(results_of(domains), domains, tmp_path / "a.html")
    text = (tmp_path / "a.html").read_text(encoding="utf-8")
    drawn = [chart["spec"]["layer"][-1]["encoding"]["color"]["scale"]["range"][0] for chart in chart_data(text)]
    assert [mark["style"] for mark in Page(text).all("span")[:2]] == [f"color:{color}" for color in drawn]


def test_the_same_results_make_the_same_page(text, results, domains, tmp_path):
    write_page(results, domains, tmp_path / "a.html", settings={"seeds": "0, 1", "torch": "2.13.0"})
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == text


def test_empty_results_make_no_page(domains, tmp_path):
    with pytest.raises(InputError, match="results is empty"):
        write_page(pd.DataFrame(), domains, tmp_path / "a.html")
    assert list(tmp_path.iterdir()) == []
