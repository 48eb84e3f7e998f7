"""The benchmark measures what it says, and judges what it measured."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.failing import judged as judged_calls
from bench.figures import Measured, figures
from bench.report import render
from bench.tables import rates

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


def joined(rate: float, after: float) -> dict[str, Any]:
    return {"transaction": {"slow": {"both": 1.0, "after": 1.0}, "quick": {"both": rate, "after": after}}}


def test_orders_and_lags_are_judged_by_how_they_were_written() -> None:
    lags = {"lag": {"psycopg": {"p50_ms": 120.0}, "psycopg/add": {"p50_ms": 12.0}}}
    found = judged(
        (
            "headrace-postgres-sync",
            entry("ours", "postgres", 1) | joined(900, 600) | {"relay": {"median": 6_000} | lags},
        ),
        ("peer", entry("python", "postgres", 1) | joined(600, 400)),
        ("broken", entry("python", "postgres", 1) | {"transaction": {"error": "no"}}),
    )
    order = "PostgreSQL: order and job in one transaction"
    assert found[f"{order}, beside the job after the commit"].shown == "1.50x (900/s, 600/s; quick)"
    assert found[f"{order}, beside the fastest peer"].shown == "1.50x (900/s, peer 600/s)"
    lag = "PostgreSQL: lag of an idle relay p50, events written by"
    assert (found[f"{lag} psycopg"].reached, found[f"{lag} headrace itself"].reached) == (False, True)
    assert found["PostgreSQL: relay, events into jobs"].reached is True
    assert found["MariaDB: relay, events into jobs"].reached is None


def test_what_twice_costs_is_judged_by_store() -> None:
    once = {"once": {"median": 15_000, "plain": {"median": 28_000}, "ratio": 15 / 28}}
    http = {"http": {"added_p50_ms": 1.2, "added_p99_ms": 3.0}}
    polls = {"polls": {"n": 100_000, "cpu_percent": 2.1}}
    found = judged(
        ("headrace-sqlite", entry("ours", "sqlite", 1) | once | http | polls),
        ("headrace-mysql", entry("ours", "mysql", 1) | {"once": once["once"] | {"ratio": 0.4}} | http),
    )
    drains = "no-op drain of a task with once=, beside the same jobs without"
    assert found[f"SQLite: {drains}"].shown == "0.54x (15,000/s, 28,000/s)"
    assert (found[f"SQLite: {drains}"].reached, found[f"MariaDB: {drains}"].reached) == (True, False)
    added = "what the Idempotency-Key middleware adds to a POST"
    assert (found[f"SQLite: {added}, p50"].reached, found[f"MariaDB: {added}, p50"].reached) == (False, None)
    assert found[f"Redis: {added}, p50"].shown == "not measured"
    assert found["SQLite: idle worker beside 100,000 waiting polls"].reached is False


def test_calls_are_judged_by_what_the_circuit_was_when_they_came() -> None:
    steps = [(10.0, "open"), (11.0, "half_open"), (11.5, "open")]
    heard = [(10.2, "open"), (11.1, "half_open"), (11.6, "open")]
    found = judged_calls([9.0, 10.1, 10.2, 11.1, 11.2], heard, steps, probes=2)
    assert (found["late"], found["after"], found["probes"], found["openings"]) == (0, 2, 2, 2)
    assert (round(found["heard_ms"]), round(found["last_ms"])) == (200, 200)
    assert judged_calls([10.3], heard, steps, probes=2)["late"] == 1
    assert judged_calls([11.1, 11.2, 11.3, 11.7], heard, steps, probes=2)["late"] == 2
    assert judged_calls([10.1], [], steps, probes=2)["late"] == 1  # nobody has said when he heard of it


def test_what_fails_is_judged_by_store() -> None:
    drains = {f"{way}_ratio": 0.89 for way in ("parked", "beside", "closed")}
    rate = {way: {"median": 1.0} for way in ("alone", "closed", "run", "parked", "beside")}
    poison = {"n": 20, "deaths": 3, "done": 20, "failed": 1, "seconds": 12.0}
    found = judged(
        (
            "headrace-sqlite",
            entry("ours", "sqlite", 1)
            | {"circuit": {"late_1": 0, "last_ms_1": 1.2, "heard_ms_1": 2.3} | drains | rate}
            | {"replay": {"n": 10_000, "seconds": 31.0}, "hardkill": {"slot_max_ms": 999.0}, "poison": poison},
        ),
        ("headrace-redis", entry("ours", "redis", 1) | {"poison": poison | {"done": 19}, "circuit": {"error": "no"}}),
    )
    reached = {name.removeprefix("SQLite: "): one.reached for name, one in found.items() if one.value is not None}
    assert reached["calls of a worker later than one settle after its circuit opened, but for the probes"] is True
    assert reached["no-op drain while as many of an open circuit lie parked, beside none"] is False
    assert reached["no-op drain of a task with a closed circuit, beside one without"] is None
    assert reached["replay of 10,000 failed jobs"] is False
    assert reached["longest time from the order to end a hard-killed job until the next one in its slot"] is True
    assert (reached["20 good jobs beside one poison"], reached["Redis: 20 good jobs beside one poison"]) == (
        True,
        False,
    )


def quick_run(tmp_path: Path, variant: str, *workloads: str, options: tuple[str, ...] = ()) -> dict[str, Any]:
    """What a run measured, with its report in `report`."""
    out = tmp_path / "results.json"
    words = ["--quick", "--seconds", "0.05", "--workloads", ",".join(workloads), "--out", str(out), *options]
    command = [sys.executable, "-m", "bench", "--only", variant, "--work-dir", str(tmp_path), *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads(out.read_text())
    measured: dict[str, Any] = results["variants"][variant]
    broken = {name: measured[name]["error"] for name in workloads if "error" in measured[name]}
    assert not broken, "\n".join([str(broken), *(log.read_text() for log in tmp_path.glob("logs/*"))])
    assert not list(tmp_path.glob("run-*"))
    return measured | {"report": render(results)}


@pytest.mark.parametrize("job", ["", "-sync"])
def test_a_quick_run_on_sqlite(tmp_path: Path, job: str) -> None:
    measured = quick_run(tmp_path, f"headrace-sqlite{job}", "bulk", "drain_noop", "latency")
    assert measured["bulk"]["median"] > 0
    assert (measured["drain_noop"]["lost"], measured["drain_noop"]["duplicated"]) == (0, 0)
    assert measured["drain_noop"]["unsettled"] == 0
    assert measured["latency"]["samples"] == 20
    assert f"| headrace-sqlite{job} " in measured["report"]


@pytest.mark.timeout(240)
def test_a_quick_run_of_keys_that_come_twice(tmp_path: Path) -> None:
    measured = quick_run(tmp_path, "headrace-sqlite", "once", "http")
    once, http = measured["once"], measured["http"]
    assert (once["lost"], once["duplicated"], once["unsettled"]) == (0, 0, 0)
    assert once["ratio"] == once["median"] / once["plain"]["median"]
    assert http["n"] == 20
    assert http["bare_p50_ms"] > 0
    assert http["replay_p99_ms"] >= http["replay_p50_ms"]
    assert "## Once: no-op drain" in measured["report"]
    assert "## Idempotency-Key: one POST" in measured["report"]


@pytest.mark.timeout(240)
def test_a_quick_run_of_circuits(tmp_path: Path) -> None:
    measured = quick_run(tmp_path, "headrace-sqlite", "circuit")
    found = measured["circuit"]
    assert (found["late_1"], found["openings_1"] > 0) == (0, True)
    assert found["parked_ratio"] == found["parked"]["median"] / found["run"]["median"]
    assert "## Circuits: calls that a dependency sees" in measured["report"]


@pytest.mark.timeout(240)
def test_a_quick_run_of_jobs_that_fail(tmp_path: Path) -> None:
    measured = quick_run(tmp_path, "headrace-sqlite", "replay", "hardkill")
    assert (measured["replay"]["replayed"], measured["hardkill"]["n"]) == (300, 2)
    assert "## Hard-killed jobs" in measured["report"]


def test_a_quick_run_beside_polls(tmp_path: Path) -> None:
    measured = quick_run(tmp_path, "headrace-sqlite", "polls", options=("--polls", "300"))
    assert measured["polls"]["n"] == 300
    assert measured["polls"]["cpu_percent"] >= 0
    assert "| headrace-sqlite | 300 | " in measured["report"]


def test_a_quick_run_in_transactions(tmp_path: Path) -> None:
    measured = quick_run(tmp_path, "headrace-sqlite-sync", "transaction")
    assert set(measured["transaction"]["sqlite3"]) == {"row", "both", "after", "n", "rates"}
    assert "## Orders of one producer" in measured["report"]


def test_a_quick_run_of_the_relay(tmp_path: Path) -> None:
    measured = quick_run(tmp_path, "headrace-sqlite-sync", "relay")["relay"]
    assert measured["median"] > 0
    assert {name: lag["samples"] for name, lag in measured["lag"].items()} == {"sqlite3": 5, "sqlite3/add": 5}


def test_a_quick_run_beside_a_long_transaction(tmp_path: Path) -> None:
    measured = quick_run(tmp_path, "headrace-sqlite", "foreign")
    assert measured["foreign"]["n"] >= 200
    assert "## Another connection's snapshot" in measured["report"]


@pytest.mark.timeout(240)
def test_a_quick_run_of_a_database_that_ages(tmp_path: Path) -> None:
    measured = quick_run(tmp_path, "headrace-postgres", "bloat", options=("--bloat-jobs", "400"))
    found = measured["bloat"]
    assert (found["n"], found["unsettled"]) == (400, 0)
    assert found["after"]["tables"] > found["before"]["tables"] > 0
    assert "## Tables after many jobs" in measured["report"]
