"""The tests run the same under nohup, in the background of a script, and in a terminal."""

import signal
import subprocess
import sys

import pytest

from tests.processes import restore_signals, wait_until


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_process_can_be_stopped_by_a_signal_that_this_one_ignored(number):
    before = signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [number])
    try:
        restore_signals()
        process = subprocess.Popen(["cat"], stdin=subprocess.PIPE)  # Python may not be ready for it yet
    finally:
        signal.signal(number, before)
    process.send_signal(number)
    assert process.wait() == -number
    process.stdin.close()


def test_what_is_waited_for_is_returned_and_a_process_that_ends_before_fails():
    ended = subprocess.Popen([sys.executable, "-S", "-c", ""])
    assert wait_until(lambda: "found", ended) == "found"
    with pytest.raises(AssertionError, match="the process ended with 0 before"):
        wait_until(lambda: False, ended)
