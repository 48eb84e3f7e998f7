"""The whole performance, with fewer customers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
DEMO = [sys.executable, "-m", "examples.checkout.demo"]


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("CHECKOUT_")} | {"STORE": ""}


@contextmanager
def performing(*options: str) -> Iterator[subprocess.Popen[str]]:
    """The demo, and no process of it when the test is over, however that went."""
    demo = subprocess.Popen(
        [*DEMO, *options], cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
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


@pytest.mark.timeout(150)
def test_the_demo_holds_every_claim(tmp_path: Path) -> None:
    with performing("--orders", "40", "--per-second", "8", "--folder", str(tmp_path)) as demo:
        output, _ = demo.communicate(timeout=140)
    assert demo.returncode == 0, output
    assert "All claims hold" in output
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert all(finding["ok"] for finding in report["findings"])
    # and four that the drills need, a double click, a last unit, one whose customer walked away
    assert report["figures"]["orders"] == 40 + 7
    assert report["figures"]["processes that died"] >= 8
    assert (tmp_path / "report.md").read_text(encoding="utf-8").startswith("# Checkout demo")


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_no_process_behind(tmp_path: Path, ending: signal.Signals) -> None:
    with performing("--folder", str(tmp_path)) as demo:
        assert demo.stdout is not None
        wait_until(lambda: "begin to arrive" in demo.stdout.readline(), 60, "the shop to open")
        started = children(demo)
        demo.send_signal(ending)
        output, _ = demo.communicate(timeout=40)
    assert demo.returncode == 130, output
    assert len(started) >= 3
    assert [child for child in started if child.is_running()] == []
