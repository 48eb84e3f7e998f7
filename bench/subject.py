"""One variant on its store: starts its producers and workers, and reads what they did."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import environments, processes
from bench.catalog import Variant
from bench.record import Record
from bench.servers import Server

PEERS = Path(__file__).resolve().parent / "peers"
SOURCE = PEERS.parents[1] / "src"

Answer = dict[str, Any]


class Failed(Exception):
    """A variant did not do what a workload asked of it."""


ADDRESSES = {
    "redis": "BENCH_REDIS_URL",
    "sqlite": "BENCH_SQLITE",
    "postgres": "BENCH_POSTGRES_URL",
    "mysql": "BENCH_MYSQL_URL",
}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How long and how often. Seconds, unless said otherwise."""

    work: Path
    seconds: float = 2.0  # wanted length of one timed run
    repeat: int = 3  # timed runs; the median is reported
    depths: tuple[int, ...] = (1_000, 100_000, 1_000_000)  # jobs waiting
    profiles: tuple[str, ...] = ("default",)  # of the crash workload
    crash_jobs: int = 1_000
    memory_jobs: int = 200_000
    watch: float = 240.0  # longest time to watch for recovery after a crash
    settled: float = 5.0  # watched on after that, for late duplicates
    idle: float = 10.0
    polls: int = 100_000  # waiting beside an idle worker
    samples: int = 1_000  # of the latency, at most
    bloat_jobs: int = 1_000_000
    bloat_waves: int = 10
    still: float = 65.0  # autovacuum has settled when nothing has changed for so long: its rounds are a minute
    foreign_jobs: int = 200_000  # drained beside an old snapshot, at most
    waiting: int = 10_000  # jobs that wait on after these
    outage: float = 2.5  # from when a circuit has opened; it lets probes in each second
    replay_jobs: int = 10_000
    kills: int = 20  # of jobs in child processes
    verbose: bool = False  # show what producers and workers print


class Subject:
    """A variant under measurement."""

    def __init__(self, settings: Settings, variant: Variant, store: Server, scratch: Path) -> None:
        self.settings, self.variant, self.store = settings, variant, store
        self.scratch = scratch / variant.id
        self.scratch.mkdir(parents=True, exist_ok=True)
        self.record = Record(self.scratch / "record.bin")
        self.output = settings.work / "logs" / f"{variant.id}.log"
        self.output.parent.mkdir(parents=True, exist_ok=True)

    # -- its programs

    def _command(self, *words: object) -> list[str]:
        program = environments.runtime(self.variant, self.settings.work)
        return [program, str(PEERS / self.variant.script), *map(str, words)]

    def _environment(self, profile: str) -> dict[str, str]:
        paths = [str(PEERS), *([str(SOURCE)] if self.variant.ours else [])]
        return os.environ | {
            "PYTHONPATH": os.pathsep.join(paths),
            "PYTHONPYCACHEPREFIX": str(self.settings.work / "pycache"),
            "BENCH_RECORD": str(self.record.path),
            "BENCH_MODE": self.variant.mode,
            "BENCH_PROFILE": profile,
            "BENCH_NODE_ROOT": str(self.settings.work / self.variant.home),
            ADDRESSES[self.variant.store]: self.store.url,
        }

    def call(self, *words: object, profile: str = "throughput", timeout: float = 600) -> Answer:
        """Run one command of the variant's script, and return what it answers.

        Raises:
            Failed: it answered nothing.
        """
        with self.output.open("a") as output:
            done = subprocess.run(
                self._command(*words),
                env=self._environment(profile),
                cwd=self.scratch,
                timeout=timeout,
                stdout=subprocess.PIPE,
                stderr=None if self.settings.verbose else output,
                text=True,
                check=False,
            )
        for line in done.stdout.splitlines():
            if line.startswith("RESULT "):
                return dict(json.loads(line.removeprefix("RESULT ")))
        why = "" if self.settings.verbose else self.output.read_text(errors="replace").strip().rpartition("\n")[2][:200]
        raise Failed(f"{words[0]} ended with {done.returncode} and without an answer: {why} (logs/{self.output.name})")

    @contextlib.contextmanager
    def worker(self, profile: str, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        """A worker, or another command that does not end; killed at the end with all that it started."""
        with self.output.open("a") as output:
            sink = None if self.settings.verbose else output
            process = subprocess.Popen(
                self._command(*(words or ("work",))),
                env=self._environment(profile),
                cwd=self.scratch,
                stdout=sink,
                stderr=sink,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            processes.kill(process)

    # -- steps of the workloads

    def forget_runs(self) -> None:
        """Begin the run log anew."""
        self.record = Record(self.record.path)

    def fresh(self) -> None:
        """Empty the store and the run log."""
        self.store.reset()
        if self.variant.setup:
            self.call("setup")
        self.forget_runs()

    def produce(self, count: int, first: int = 0, kind: str = "noop", profile: str = "throughput") -> float:
        """Enqueue one by one; answers jobs per second."""
        return count / float(self.call("produce", count, kind, first, profile=profile)["seconds"])

    def bulk(self, count: int, first: int = 0, kind: str = "noop", profile: str = "throughput") -> float:
        """Enqueue with the bulk call; answers jobs per second."""
        return count / float(self.call("bulk", count, kind, first, profile=profile)["seconds"])

    def fill(self, count: int, first: int = 0, kind: str = "noop", profile: str = "throughput") -> None:
        """Enqueue in the fastest way."""
        (self.bulk if self.variant.bulk else self.produce)(count, first, kind, profile)

    def scaled(self, rate: float, low: int, high: int) -> int:
        """As many jobs as take about `settings.seconds`, in a round number."""
        count = int(rate * self.settings.seconds)
        digits = int(10 ** max(0, len(str(count)) - 2))
        return max(low, min(high, count - count % digits))


def summary(rates: list[float], count: int) -> Answer:
    """What is kept of the runs of one timing."""
    return {"n": count, "rates": [round(rate, 1) for rate in rates], "median": statistics.median(rates)}


def until(condition: Callable[[], object], seconds: float, pause: float = 0.002) -> bool:
    """Look again and again, for so long at most."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(pause)
    return bool(condition())
