"""The same seed gives the same history, event for event: in one process, in another, whatever the hash seed."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.testing.simulator import OpenStore, memory_store, simulate
from tests.sim.stores import sqlite_store

SEEDS = (1, 5, 7, 13)


def digest(seed: int, open_store: OpenStore = memory_store) -> str:
    lines = "\n".join(simulate(seed, open_store).trace.lines(dull=True))
    assert lines.count("\n") > 20
    return hashlib.sha256(lines.encode()).hexdigest()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_repeats_itself(seed: int) -> None:
    assert digest(seed) == digest(seed)


def test_a_seed_repeats_itself_on_sqlite(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    assert digest(5, sqlite_store(tmp_path / "one")) == digest(5, sqlite_store(tmp_path / "two"))


def test_seeds_differ() -> None:
    assert len({digest(seed) for seed in SEEDS}) == len(SEEDS)


@pytest.mark.parametrize("hash_seed", ["1", "4242"])
def test_another_process_sees_the_same(hash_seed: str) -> None:
    code = f"from tests.sim.test_determinism import digest\nfor seed in {SEEDS}: print(digest(seed))"
    printed = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert printed.split() == [digest(seed) for seed in SEEDS]
