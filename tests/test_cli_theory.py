import contextlib
import io
import json
from types import SimpleNamespace
from unittest import mock

import pytest

from domaincover.cli import main

from .test_cli import assert_refused

SMALL = ["paper", "theory", "--domains", "2,3", "--seeds", "1", "--steps", "20"]


def call(*arguments):
    """Run the command in this process, which has loaded torch already."""
    stdout, stderr = io.StringIO(), io.StringIO()
    with (
        mock.patch("sys.argv", ["domaincover", *map(str, arguments)]),
        contextlib.redirect_stdout(stdout),
        contextlib.redirect_stderr(stderr),
        pytest.raises(SystemExit) as left,
    ):
        main()
    return SimpleNamespace(returncode=left.value.code, stdout=stdout.getvalue(), stderr=stderr.getvalue())


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    out = tmp_path_factory.mktemp("theory") / "with spaces"
    return out, call(*SMALL, "--out", out)


def test_theory_prints_a_table_and_names_the_figure(done):
    out, ran = done
    assert ran.returncode == 0, ran.stderr
    assert [line.split()[0] for line in ran.stdout.splitlines()[2:]] == ["2", "3"]
    assert ran.stderr.splitlines()[-1] == f"The figure is {(out / 'theory.png').resolve().as_uri()}"
    assert sorted(path.name for path in out.iterdir()) == ["theory.json", "theory.png", "theory.svg"]


def test_the_same_command_again_only_draws(done):
    out, first = done
    before = (out / "theory.json").read_bytes()
    (out / "theory.png").unlink()
    again = call(*SMALL, "--out", out)
    assert again.stdout == first.stdout
    assert "trained on" not in again.stderr
    assert (out / "theory.json").read_bytes() == before
    assert (out / "theory.png").exists()


def test_other_settings_in_the_same_directory_are_refused(done):
    assert_refused(call(*SMALL, "--steps", "21", "--out", done[0]), "was made with other settings")
    assert json.loads((done[0] / "theory.json").read_text())["settings"]["steps"] == 20


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seeds", "0"], "--seeds is the number of seeds and must be at least 1, got 0"),
        (["--domains", "0"], "--domains takes numbers from 1 to 1000, got 0"),
        (["--domains", "2,many"], "--domains takes numbers with commas between them, got '2,many'"),
        (["--domains", "5000"], "--domains takes numbers from 1 to 1000, got 5000"),
        (["--steps", "0"], "--steps must be at least 1, got 0"),
    ],
)
def test_bad_options_get_one_line_and_nothing_is_written(arguments, message, tmp_path):
    out = tmp_path / "theory"
    assert_refused(call("paper", "theory", "--out", out, *arguments), message)
    assert not out.exists()


def test_a_directory_that_cannot_be_made_is_refused_before_training(tmp_path):
    (tmp_path / "file").touch()
    with mock.patch("domaincover.experiments.theory.trial", side_effect=AssertionError):
        assert_refused(call(*SMALL, "--out", tmp_path / "file" / "x"), "cannot write")
