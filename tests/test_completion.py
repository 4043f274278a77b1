"""What TAB gives, by the protocol of the script that `--install-completion` installs, and in a real bash."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from domaincover.paper.commands.data_check import names_on_disk
from domaincover.paper.commands.study_commands import experiment_names
from tests.processes import LIMIT

COMMAND = Path(sys.executable).with_name("domaincover")
pytestmark = pytest.mark.skipif(not shutil.which("bash") or not COMMAND.exists(), reason="needs bash and the command")


@pytest.fixture
def offered(capsys, monkeypatch):
    """What is offered for the last word of a line, in this process: by the protocol of the script."""

    def complete(line):
        from domaincover.cli import main

        words = line.split(" ")
        monkeypatch.setattr(sys, "argv", ["domaincover"])
        monkeypatch.setenv("COMP_WORDS", "\n".join(words))
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        monkeypatch.setenv("_DOMAINCOVER_COMPLETE", "complete_bash")
        with pytest.raises(SystemExit):
            main()
        printed = capsys.readouterr()
        assert printed.err == ""
        return printed.out.split()

    return complete


def test_commands_are_offered(offered):
    assert offered("domaincover e") == ["evaluate", "export"]


def test_options_are_offered(offered):
    assert offered("domaincover fit visits.csv --dom") == ["--domain", "--domain-confidence"]


@pytest.mark.parametrize(
    ("line", "some"),
    [
        ("domaincover fit visits.csv --method ", {"set-cover", "robust", "pooled", "erm", "vrex"}),
        ("domaincover fit visits.csv --base ", {"mlp", "linear", "boosting"}),
        ("domaincover fit photos --network ", {"resnet-18"}),
        ("domaincover fit visits.csv --device c", {"cpu", "cuda"}),
        ("domaincover results runs --format ", {"table", "csv", "latex", "json"}),
        ("domaincover paper main --format ", {"png", "svg", "pdf"}),
        ("domaincover data check ", {"camelyon17", "fmow", "iwildcam", "amazon", "audiomnist", "wages"}),
        ("domaincover paper main --datasets st", {"storms"}),
        ("domaincover paper synthetic --set ep", {"epochs="}),
    ],
)
def test_values_of_an_option_are_offered(offered, line, some):
    assert some <= set(offered(line))


def test_experiments_and_data_sets_are_offered(offered):
    from domaincover.paper.experiment import PAPER_EXPERIMENTS

    assert {*PAPER_EXPERIMENTS, "all", "list", "synthetic", "synthetic-10-random", "camelyon17"} <= set(
        offered("domaincover paper ")
    )


def test_a_second_experiment_is_offered(offered):
    assert offered("domaincover paper main ta") == ["targets"]


@pytest.mark.parametrize("command", ["fit {} --label ", "evaluate model {} --domain ", "predict model {} --id "])
def test_columns_of_the_table_are_offered(offered, tmp_path, command):
    (tmp_path / "visits.csv").write_text("age;hospital;out come\n1;2;3\n")
    assert offered(f"domaincover {command.format(tmp_path / 'visits.csv')}") == ["age", "hospital"]


@pytest.mark.parametrize("text", [b"a,a\n1,2\n", b"\xff\xfe\x00", b""])
def test_a_table_that_cannot_be_read_offers_nothing(offered, tmp_path, text):
    (tmp_path / "bad.csv").write_bytes(text)
    assert offered(f"domaincover fit {tmp_path / 'bad.csv'} --label ") == []


def test_without_a_table_no_column_is_offered(offered):
    assert offered("domaincover fit --label ") == []


def test_a_path_is_left_to_the_shell(offered):
    assert offered("domaincover fit vis") == []


def test_every_known_experiment_and_data_set_on_disk_is_offered():
    from domaincover.paper.catalogue import CATALOGUE
    from domaincover.paper.experiment import PAPER_EXPERIMENTS

    assert experiment_names() == sorted(PAPER_EXPERIMENTS)
    assert names_on_disk() == [*CATALOGUE]


def test_completion_does_not_load_torch():
    program = """
import os, sys
sys.argv = ["domaincover"]
from domaincover.cli import main
for line in ("fit visits.csv --method ", "paper ", "paper synthetic --set ", "paper main --datasets "):
    words = ["domaincover", *line.split(" ")]
    os.environ |= {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    os.environ["_DOMAINCOVER_COMPLETE"] = "complete_bash"
    try:
        main()
    except SystemExit:
        pass
    if line == "paper ":
        print("pandas" in sys.modules)
print("torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert "set-cover" in lines
    assert [line for line in lines if line in ("True", "False")] == ["False", "False"]


def test_tab_in_bash_completes_names_columns_and_paths(tmp_path):
    (tmp_path / "visits.csv").write_text("age,hospital\n1,2\n")
    script = tmp_path / "completion.sh"
    with script.open("w") as file:
        subprocess.run([COMMAND], env=os.environ | {"_DOMAINCOVER_COMPLETE": "source_bash"}, stdout=file, check=True)
    ours, theirs = pty.openpty()
    environment = os.environ | {"PATH": f"{COMMAND.parent}:{os.environ['PATH']}", "PS1": "> ", "TERM": "dumb"}
    environment |= {"INPUTRC": os.devnull}  # the keys mean what they do by default
    bash = subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-i"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=tmp_path,
        env=environment,
        start_new_session=True,
    )
    os.close(theirs)
    # The line is not run: Ctrl-A goes to its beginning, where an echo is put before it.
    keys = b"source completion.sh\ndomaincover fit vis\t--label ho\t--meth\trob\t\x01echo made: \nexit\n"
    try:
        os.write(ours, keys)
        shown = _read_until_closed(ours, LIMIT)
    finally:
        bash.kill()
        bash.wait()
        os.close(ours)
    assert "\nmade: domaincover fit visits.csv --label hospital --method robust" in shown.replace("\r", "")


def _read_until_closed(descriptor, seconds):
    """Return what is shown until the other end is closed."""
    shown, limit = b"", time.monotonic() + seconds
    while time.monotonic() < limit:
        if select.select([descriptor], [], [], 0.1)[0]:
            try:
                part = os.read(descriptor, 4096)
            except OSError:
                break
            if not part:
                break
            shown += part
    return shown.decode()
