"""A thousand small histories of the whole system, each with troubles of its own; the same seed is the same history.

HEADRACE_SIM_SEEDS=N runs N of them. HEADRACE_SIM_SEED=n runs that one alone and prints all that happened in it;
with HEADRACE_SIM_STORE=sqlite (or redis, postgres, mysql) on that store.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from headrace.testing.simulator import Report, simulate
from tests.contract.stores import DATABASES
from tests.sim.stores import database_store, redis_store, sqlite_store

CHUNK = 50
SEEDS = int(os.environ.get("HEADRACE_SIM_SEEDS", "1000"))
ONE_SEED = os.environ.get("HEADRACE_SIM_SEED", "")
STORE = os.environ.get("HEADRACE_SIM_STORE", "")

starts: Sequence[int] = range(0, SEEDS, CHUNK)
on_stores: Sequence[int] = range(max(1, SEEDS // 25))
special = [
    int(line.split()[0])
    for line in (Path(__file__).parent / "seeds.txt").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
]
if ONE_SEED:
    starts, special, on_stores = (), [int(ONE_SEED)], ()
    if STORE:
        special, on_stores = [], [int(ONE_SEED)]


def check(report: Report, store: str = "") -> None:
    """Fail with the seed and all about the jobs it concerns."""
    if ONE_SEED:
        print(report.scenario, *report.trace.lines(), report.ended, report.fates, sep="\n")
    if report.violations:
        again = f"{store}HEADRACE_SIM_SEED={report.scenario.seed} python -m pytest -s tests/sim/test_seeds.py"
        pytest.fail(f"{report.explain()}\nreplay it with: {again}", pytrace=False)
    assert report.trace.events


@pytest.mark.parametrize("seed", special)
def test_seeds_that_once_failed(seed: int) -> None:
    check(simulate(seed))


@pytest.mark.parametrize("start", starts)
def test_promises_hold(start: int) -> None:
    """Nothing lost, nothing from nowhere, one live lease, one end, bounded counts, everything ends."""
    ended = 0
    for seed in range(start, min(start + CHUNK, SEEDS)):
        report = simulate(seed)
        check(report)
        ended += sum(report.ended.values())
    assert ended


@pytest.mark.parametrize("seed", on_stores)
@pytest.mark.skipif(STORE not in ("", "sqlite"), reason="another store is asked for")
def test_promises_hold_on_sqlite(seed: int, quick_directory: Path) -> None:
    check(simulate(seed, sqlite_store(quick_directory)), "HEADRACE_SIM_STORE=sqlite ")


@pytest.mark.parametrize("seed", on_stores)
@pytest.mark.skipif(STORE not in ("", "redis"), reason="another store is asked for")
def test_promises_hold_on_redis(seed: int, redis_url: str, unique_name: str) -> None:
    check(simulate(seed, redis_store(redis_url, unique_name)), "HEADRACE_SIM_STORE=redis ")


@pytest.mark.parametrize("seed", on_stores)
@pytest.mark.parametrize("kind", [kind for kind in DATABASES if STORE in ("", kind)])
def test_promises_hold_on_a_database(kind: str, seed: int, request: pytest.FixtureRequest) -> None:
    check(simulate(seed, database_store(kind, request)), f"HEADRACE_SIM_STORE={kind} ")
