"""Processes that tests start: the same wherever the tests run, and awaited by events."""

import signal
import time

# Under nohup, in the background of a script or in some containers a process inherits signals as ignored, and passes
# them on to every process that it starts.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)
LIMIT = 600.0  # seconds; only a failure takes that long, however busy the machine is


def restore_signals():
    """Handle signals as Python does in a terminal; processes started from now on inherit it."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    for number in SIGNALS:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def wait_until(condition, process=None):
    """Return what a condition gives as soon as it is true; fail if the process ends before, or at the limit."""
    limit = time.monotonic() + LIMIT
    while True:
        has_ended = process is not None and process.poll() is not None  # looked at first: the condition may be its end
        if found := condition():
            return found
        assert not has_ended, f"the process ended with {process.poll()} before what was waited for"
        assert time.monotonic() < limit, f"not within {LIMIT:.0f} seconds"
        time.sleep(0.01)
