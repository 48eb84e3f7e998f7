"""The benchmark measures what it says, and judges what it measured."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.figures import Measured, figures
from bench.report import rates, render

ROOT = Path(__file__).resolve().parents[1]


def entry(core: str, store: str, drain: float, **more: Any) -> dict[str, Any]:
    described = {"core": core, "store": store, "job": "async", "processes": 1}
    return described | {"drain_noop": {"median": drain, "rates": [drain]}} | more


def judged(*variants: tuple[str, dict[str, Any]]) -> dict[str, Measured]:
    return {one.figure: one for one in figures({"variants": dict(variants)})}


def test_figures_compare_with_the_fastest_peer_of_a_kind() -> None:
    found = judged(
        ("headrace-redis", entry("ours", "redis", 31_000)),
        ("slow", entry("python", "redis", 2_000)),
        ("fast", entry("python", "redis", 3_000)),
        ("two processes", entry("python", "redis", 9_000) | {"processes": 2}),
        ("compiled", entry("native", "redis", 11_000)),
    )
    beside_python = found["Redis: no-op drain, beside the fastest pure-Python peer"]
    assert (beside_python.shown, beside_python.reached) == ("10.33x (31,000/s, fast 3,000/s)", True)
    assert found["Redis: no-op drain, beside the fastest native core"].reached is False
    assert found["Redis: no-op drain"].reached is True


def test_what_was_not_measured_is_neither_reached_nor_missed() -> None:
    found = judged(("headrace-redis", {"core": "ours", "drain_noop": {"error": "no"}, "latency": {"p50_ms": 0.9}}))
    assert [one.figure for one in found.values() if one.reached is not None] == ["Redis: latency p50, async"]
    assert found["Redis: no-op drain"].shown == "not measured"


def test_a_loss_stands_beside_the_rate() -> None:
    assert rates({"median": 100.0, "rates": [95.0, 100.0, 120.0], "lost": 2}) == "100 (95–120) **2 lost**"
    assert rates({"error": "it broke"}) == "failed"


@pytest.mark.parametrize("job", ["", "-sync"])
def test_a_quick_run_on_sqlite(tmp_path: Path, job: str) -> None:
    out = tmp_path / "results.json"
    options = ["--quick", "--seconds", "0.05", "--workloads", "bulk,drain_noop,latency", "--out", str(out)]
    command = [sys.executable, "-m", "bench", "--only", f"headrace-sqlite{job}", "--work-dir", str(tmp_path), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads(out.read_text())
    measured = results["variants"][f"headrace-sqlite{job}"]
    broken = {name: measured[name]["error"] for name in ("bulk", "drain_noop", "latency") if "error" in measured[name]}
    assert not broken, "\n".join([str(broken), *(log.read_text() for log in tmp_path.glob("logs/*"))])
    assert measured["bulk"]["median"] > 0
    assert (measured["drain_noop"]["lost"], measured["drain_noop"]["duplicated"]) == (0, 0)
    assert measured["drain_noop"]["unsettled"] == 0
    assert measured["latency"]["samples"] == 20
    assert f"| headrace-sqlite{job} " in render(results)
    assert not list(tmp_path.glob("run-*"))
