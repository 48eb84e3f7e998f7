"""The whole performance, with fewer customers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
DEMO = [sys.executable, "-m", "examples.checkout.demo"]


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("CHECKOUT_")} | {"STORE": ""}


@pytest.mark.timeout(150)
def test_the_demo_holds_every_claim(tmp_path: Path) -> None:
    run = subprocess.run(
        [*DEMO, "--orders", "40", "--per-second", "8", "--folder", str(tmp_path)],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=140,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "All claims hold" in run.stdout
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert all(finding["ok"] for finding in report["findings"])
    assert report["figures"]["orders"] == 43  # and one double click, one last unit, one who walked away
    assert report["figures"]["processes that died"] >= 8
    assert (tmp_path / "report.md").read_text(encoding="utf-8").startswith("# Checkout demo")


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_no_process_behind(tmp_path: Path, ending: signal.Signals) -> None:
    demo = subprocess.Popen(
        [*DEMO, "--folder", str(tmp_path)], cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True
    )
    try:
        assert demo.stdout is not None
        wait_until(lambda: "begin to arrive" in demo.stdout.readline(), 60, "the shop to open")
        children = psutil.Process(demo.pid).children(recursive=True)
        demo.send_signal(ending)
        demo.communicate(timeout=30)
        assert demo.returncode == 130
        assert len(children) >= 3
        wait_until(lambda: not [child for child in children if child.is_running()], 5, "the children's end")
    finally:
        demo.kill()
        demo.wait()
