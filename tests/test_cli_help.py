"""Every command has a help with an example that it understands, and the reference is made from it."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from docs.tools import command_reference as reference
from docs.tools.command_reference import described_commands
from domaincover.cli import app

ROOT = Path(__file__).parent.parent
COMMANDS = {one.name: one for one in described_commands()}


def test_the_walk_finds_commands_at_every_depth():
    assert {"domaincover fit", "domaincover doctor", "domaincover data check", "domaincover paper"} <= set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_says_what_it_does_and_has_one_example(name):
    help_text = COMMANDS[name].command.help
    assert re.match(r"[A-Z].*[.]$", COMMANDS[name].about[0])
    assert len(re.findall(r"^Example: domaincover ", help_text, re.MULTILINE)) == 1


@pytest.mark.parametrize("name", COMMANDS)
def test_the_example_of_a_command_is_one_that_it_understands(name, monkeypatch):
    """Nothing is run: the command that the example would call is caught with what it would get."""
    called = {}
    command = COMMANDS[name].command
    root = typer.main.get_command(app)
    for one in _commands_of(root):
        monkeypatch.setattr(one, "invoke", lambda ctx: called.update({ctx.command.name: ctx.params}))
    first, *arguments = shlex.split(COMMANDS[name].example.split(" | ")[0])
    assert first == "domaincover"
    root.main(arguments, standalone_mode=False)
    assert list(called) == [command.name]
    required = [parameter.name for parameter in command.params if parameter.required]
    assert all(called[command.name][parameter] is not None for parameter in required)


def _commands_of(command):
    if not hasattr(command, "commands"):
        return [command]
    return [leaf for inner in command.commands.values() for leaf in _commands_of(inner)]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_argument_and_option_has_a_help_text(name):
    for parameter in COMMANDS[name].command.params:
        assert re.match(r"\S.*[.…]$", parameter.help or ""), parameter.name


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_shows_the_example(name, here):
    code, printed, _ = here(*name.split()[1:], "--help")
    assert code == 0
    example = " ".join(re.sub("[│─╭╮╰╯]", " ", printed).split())
    assert f"Example: {COMMANDS[name].example}" in example


def test_the_reference_in_the_docs_is_the_one_that_the_commands_make():
    """Otherwise: python docs/tools/command_reference.py > docs/command-line.md"""
    assert (ROOT / "docs/command-line.md").read_text(encoding="utf-8") == reference.reference()


def test_the_reference_names_every_option_of_every_command():
    page = reference.reference()
    sections = dict(re.findall(r"^## `(domaincover [^`]+)`\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE))
    assert list(sections) == list(COMMANDS)
    for name, section in sections.items():
        for parameter in COMMANDS[name].command.params:
            for flag in [*(parameter.opts if parameter.param_type_name == "option" else []), *parameter.secondary_opts]:
                assert re.search(rf"[|,:] `{re.escape(flag)}`", section)


def test_what_two_commands_share_is_described_once():
    page = reference.reference()
    lines = [line for line in page.splitlines() if line.startswith("| `--workers`") and "parts" in line]
    assert len(lines) == 1
    assert page.count("**A folder of parts** as for [`domaincover predict`](#domaincover-predict): `--workers`") == 2


def test_the_reference_names_every_variable_of_the_environment_that_is_read():
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")]
    read = {name for text in sources for name in re.findall(r'os\.environ(?:\.get\(|\[)"(\w+)"', text)}
    assert "DOMAINCOVER_CACHE" in read
    assert all(f"`{name}`" in reference.HEAD for name in read)


def test_the_reference_names_the_exit_codes_that_are_used():
    from domaincover.cli.app import INTERRUPTED, TERMINATED
    from domaincover.cli.doctor import NOT_WORKING
    from domaincover.paper.commands.run_studies import SOME_FAILED

    codes = {0, 2, NOT_WORKING, SOME_FAILED, INTERRUPTED, TERMINATED}
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", reference.HEAD, re.MULTILINE)} == codes


def test_what_markdown_would_take_for_markup_is_escaped():
    assert reference._escaped("a*b `c*d|e` f|g <h>") == r"a\*b `c*d|e` f\|g &lt;h>"


@pytest.mark.parametrize("name", COMMANDS)
def test_at_80_columns_the_help_shows_every_option_in_full(name, here, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    printed = here(*name.split()[1:], "--help")[1]
    options = [option for parameter in COMMANDS[name].command.params for option in parameter.opts]
    assert [option for option in options if option.startswith("-") and option not in printed] == []
    assert max(map(len, printed.splitlines())) <= 80


def test_the_rare_options_of_fit_stand_apart_at_the_end(here):
    printed = here("fit", "--help")[1]
    panels = ["Options", "How sets are made", "Promise about new domains", "Evaluation", "Images and texts", "Training"]
    places = [printed.index(f"─ {panel}") for panel in panels]
    assert places == sorted(places)
