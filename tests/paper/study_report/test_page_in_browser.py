"""The page in a real browser: every picture is drawn, nothing is asked of the network, and no name runs as code."""

import re
import shutil
import subprocess

import numpy as np
import pytest

from domaincover.paper.published import published
from domaincover.paper.study_report.page import write_page
from tests.processes import LIMIT

from .made_up import HOSTILE, full_study, results_of

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr", "--virtual-time-budget=600000", "--dump-dom"),
]
pytestmark = pytest.mark.skipif(BROWSER is None, reason="chromium is not installed")

ALARM = "<head><script>window.alert = () => { document.documentElement.dataset.alarm = 'rang'; };</script>"
LOOK = """<script>addEventListener("load", () => {
  const images = [...document.querySelectorAll("img")];
  document.body.dataset.drawn = images.filter((image) => image.naturalWidth > 100).length;
  document.body.dataset.overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  const asked = performance.getEntriesByType("resource").filter((one) => !one.name.startsWith("data:"));
  document.body.dataset.loaded = asked.length;
});</script></body>"""


def visited(page, folder, *flags):
    """Return the page as a browser shows it, and what it writes to the console."""
    text = page.read_text(encoding="utf-8").replace("<head>", ALARM, 1)
    copy = folder / "visited.html"
    copy.write_text(LOOK.join(text.rsplit("</body>", 1)), encoding="utf-8")
    command = [BROWSER, *FLAGS, *flags, f"--user-data-dir={folder / 'profile'}", copy.as_uri()]
    run = subprocess.run(command, capture_output=True, timeout=LIMIT, check=True)
    log = run.stderr.decode(errors="replace")
    return run.stdout.decode(), [line for line in log.splitlines() if "CONSOLE" in line]


def seen(dom, name):
    return int(re.search(rf'data-{name}="(-?\d+)"', dom)[1])


@pytest.mark.parametrize("width", [1200, 500])
def test_every_picture_is_drawn_no_page_is_wider_than_its_window_and_nothing_is_loaded(tmp_path, width):
    domains = full_study(np.random.default_rng(0), ("synthetic-10", "votes"), n_seeds=2, n_domains=4, targets=(0.9,))
    write_page(results_of(domains), domains, tmp_path / "page.html", published=published())
    dom, console = visited(tmp_path / "page.html", tmp_path, f"--window-size={width},900")
    assert seen(dom, "drawn") == dom.count("<img") >= 5
    assert seen(dom, "overflow") == seen(dom, "loaded") == 0
    assert console == []


def test_hostile_names_are_shown_and_never_run(hostile_results, hostile_domains, tmp_path):
    write_page(hostile_results, hostile_domains, tmp_path / "page.html", settings={HOSTILE: HOSTILE})
    dom, console = visited(tmp_path / "page.html", tmp_path)
    assert "data-alarm" not in dom.split("<body", 1)[0].split("<head", 1)[0]
    assert seen(dom, "drawn") == dom.count("<img")
    assert console == []
