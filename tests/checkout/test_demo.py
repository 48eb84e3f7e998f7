"""The whole performance on each database, with fewer customers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
DEMO = [sys.executable, "-m", "examples.checkout.demo"]


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("CHECKOUT_")}


@contextmanager
def performing(*options: str) -> Iterator[subprocess.Popen[str]]:
    """The demo, and no process of it when the test is over, however that went."""
    demo = subprocess.Popen(
        [*DEMO, *options],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # as in a terminal of its own
    )
    try:
        yield demo
    finally:
        left = children(demo)
        for process in (psutil.Process(demo.pid), *left) if demo.poll() is None else left:
            process.kill()
        demo.communicate()


def children(demo: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(demo.pid).children(recursive=True) if demo.poll() is None else []


@pytest.mark.timeout(250)
@pytest.mark.parametrize("database", ["sqlite", "postgres", "mysql", "redis"])
def test_the_demo_holds_every_claim(tmp_path: Path, need: Callable[[str], None], database: str) -> None:
    need(database)
    options = ("--database", database, "--orders", "40", "--per-second", "8", "--folder", str(tmp_path))
    with performing(*options) as demo:
        output, _ = demo.communicate(timeout=240)
    assert demo.returncode == 0, output
    assert "All claims hold" in output
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert report["database"] == database
    assert all(finding["ok"] for finding in report["findings"])
    # and eight while mails wait, one for each of the drills, a killed worker, a double click, a last unit, one whose
    # customer walked away, and two of a merchant who wants no webhooks
    assert report["figures"]["orders"] == 40 + 22
    assert report["figures"]["charges"] == 40 + 22
    assert report["figures"]["charges asked for again"] >= 2
    assert report["figures"]["answers replayed"] >= 5
    assert report["figures"]["processes that died"] >= 15
    shown = "\n".join(event["text"] for event in report["timeline"])
    for line in ("$ headrace failed groups", "11 of 12 jobs corrected", "is stopped: 2 of 12 jobs", "is done: 12 jobs"):
        assert line in shown
    assert (tmp_path / "report.md").read_text(encoding="utf-8").startswith("# Checkout demo")


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_an_interrupted_demo_leaves_no_process_behind(
    tmp_path: Path, need: Callable[[str], None], ending: signal.Signals, database: str
) -> None:
    need(database)
    with performing("--database", database, "--folder", str(tmp_path)) as demo:
        assert demo.stdout is not None
        wait_until(lambda: "begin to arrive" in demo.stdout.readline(), 60, "the shop to open")
        started = children(demo)
        os.killpg(demo.pid, ending)  # as Ctrl-C does: whoever is in the terminal's session hears it
        output, _ = demo.communicate(timeout=40)
    assert demo.returncode == 130, output
    assert len(started) >= 6
    assert [child for child in started if child.is_running()] == []


def test_without_a_server_the_demo_says_what_is_missing(tmp_path: Path) -> None:
    path = f"import os; os.environ['PATH'] = {str(tmp_path)!r}"
    hide = "from headrace.testing.servers import mariadb; mariadb._PLACES = os.environ['PATH']"
    start = "import sys; from examples.checkout.demo import main; sys.exit(main())"
    options = ("--database", "mariadb", "--folder", str(tmp_path))
    demo = subprocess.run(
        [sys.executable, "-c", f"{path}; {hide}; {start}", *options],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert demo.returncode == 1
    assert "apt install mariadb-server-core" in demo.stderr
