import re
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.no_cover  # the tests of what the README uses count its lines

README = Path(__file__).parent.parent / "README.md"
TEXT = README.read_text()


@pytest.fixture(scope="module")
def namespace():
    """Everything that the README's Python makes, run in order."""
    made = {"print": lambda *_: None}
    with torch.random.fork_rng():
        torch.manual_seed(0)  # noqa: TID251 - the README's user draws from the global state
        for block in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL):
            exec(compile(block, str(README), "exec"), made)  # noqa: S102
    return made


def test_the_loop_of_the_readme_brings_training_recall_to_the_target(namespace):
    hit = namespace["sets"].gather(1, namespace["labels"][:, None]).float().mean()
    assert 0.9 < hit < 1
    assert namespace["sets"].float().sum(1).mean() < 1.5


def test_the_report_of_the_readme_holds_on_every_calibration_domain(namespace):
    assert namespace["report"].summary(0.9).share_at_target == 1


@pytest.mark.parametrize("path", re.findall(r"\]\(([^)#:]+)\)", TEXT))
def test_what_the_readme_links_to_exists(path):
    assert (README.parent / path).exists()


def test_the_tree_of_the_readme_names_what_is_there():
    named = set(re.findall(r"[├└]── ([\w.]+)/?\s", TEXT.split("src/domaincover/\n")[1]))
    there = {path.name for path in (README.parent / "src/domaincover").iterdir() if not path.name.startswith("_")}
    assert named == there - {"py.typed"}


def test_the_commands_of_the_readme_are_those_of_the_command_line():
    from domaincover.cli import app
    from domaincover.paper.commands import study_names

    commands = {command.name or command.callback.__name__ for command in app.registered_commands} | {"data"}
    shell = "".join(re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL))
    assert set(re.findall(r"^domaincover (\w+)", shell, re.MULTILINE)) == commands
    experiments = re.findall(r"^domaincover paper ([\w-]+)", shell, re.MULTILINE)
    assert set(experiments) <= set(study_names.studies())
    assert {"all", "list", "synthetic", "camelyon17", "amazon"} <= set(experiments)
