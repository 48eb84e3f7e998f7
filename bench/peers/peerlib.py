"""What every Python peer script shares: job bodies, the run log, the command line.

This file is imported inside each peer's own virtual environment, so it uses the standard library only (and uvloop
where that is installed).

Every execution appends one fixed-size entry to the file named by BENCH_RECORD with a single O_APPEND write. That costs
1-2 microseconds, is atomic, survives SIGKILL, and works across threads, forks and languages, so the same mechanism
gives throughput, latency, lost jobs and duplicated jobs for every peer alike.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import struct
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NoReturn, TypeVar

try:
    import uvloop
except ImportError:
    uvloop = None

T = TypeVar("T")

ENTRY = struct.Struct("<IId")  # job index, event, CLOCK_MONOTONIC seconds
START, DONE = 0, 1

REDIS_URL = os.environ.get("BENCH_REDIS_URL", "")
SQLITE_PATH = os.environ.get("BENCH_SQLITE", "")
POSTGRES_URL = os.environ.get("BENCH_POSTGRES_URL", "")
MYSQL_URL = os.environ.get("BENCH_MYSQL_URL", "")
MODE = os.environ.get("BENCH_MODE", "")  # the peer's variant, e.g. "threads"
PROFILE = os.environ.get("BENCH_PROFILE", "throughput")  # throughput | io | default | reliable
HERE = Path(__file__).resolve().parent
WARMUP = 5  # jobs sent before the latency samples
ANSWER_S = 30  # a job that has not run by then fails the latency workload

_record = os.open(
    os.environ.get("BENCH_RECORD", os.devnull),
    os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0),
    0o644,
)


def log_event(index: int, event: int = DONE) -> None:
    """Append one entry to the run log."""
    os.write(_record, ENTRY.pack(index, event, time.monotonic()))


def noop(order_id: int) -> None:
    """Do nothing."""
    log_event(order_id)


def io10(order_id: int) -> None:
    """Wait for 10 ms."""
    time.sleep(0.010)
    log_event(order_id)


def slow50(order_id: int) -> None:
    """Wait for 50 ms, and log the beginning too."""
    log_event(order_id, START)
    time.sleep(0.050)
    log_event(order_id)


async def anoop(order_id: int) -> None:
    """Do nothing."""
    log_event(order_id)


async def aio10(order_id: int) -> None:
    """Wait for 10 ms."""
    await asyncio.sleep(0.010)
    log_event(order_id)


async def aslow50(order_id: int) -> None:
    """Wait for 50 ms, and log the beginning too."""
    log_event(order_id, START)
    await asyncio.sleep(0.050)
    log_event(order_id)


SYNC_JOBS = {"noop": noop, "io10": io10, "slow50": slow50}
ASYNC_JOBS = {"noop": anoop, "io10": aio10, "slow50": aslow50}


def by_profile(throughput: T, io: T, default: T, reliable: T | None = None) -> T:
    """The setting for the profile that the runner asked for."""
    return {
        "throughput": throughput,
        "io": io,
        "default": default,
        "reliable": default if reliable is None else reliable,
    }[PROFILE]


def use_uvloop() -> None:
    """For peers that make their event loop themselves."""
    if uvloop is not None:
        asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """Like asyncio.run, on uvloop where there is one."""
    with asyncio.Runner(loop_factory=None if uvloop is None else uvloop.new_event_loop) as runner:
        return runner.run(main)


def exec_script(script: str, *args: str) -> NoReturn:
    """Replace this process with a console script of the same virtual environment."""
    os.chdir(HERE)
    os.execv(sys.executable, [sys.executable, str(Path(sys.executable).with_name(script)), *args])


def exec_module(module: str, *args: str) -> NoReturn:
    """Replace this process with `python -m module`."""
    os.chdir(HERE)
    os.execv(sys.executable, [sys.executable, "-m", module, *args])


def entries() -> int:
    """How many entries the run log has."""
    return os.fstat(_record).st_size // ENTRY.size


def stamp(position: int) -> float:
    """The time in one entry of the run log."""
    _, _, seconds = ENTRY.unpack(os.pread(_record, ENTRY.size, position * ENTRY.size))
    return float(seconds)


def gap(widest: float) -> float:
    """A random pause before a latency sample, so that polling intervals are met anywhere."""
    return random.uniform(0.005, max(0.02, widest))


def expect(number: int, sent: float) -> None:
    """Give up on a job that does not run.

    Raises:
        TimeoutError: it was sent too long ago.
    """
    if time.monotonic() > sent + ANSWER_S:
        raise TimeoutError(f"job {number} did not run within {ANSWER_S} s")


def chunks(count: int, first: int, size: int) -> list[range]:
    """The job numbers of each bulk call."""
    return [range(low, min(low + size, first + count)) for low in range(first, first + count, size)]


class SyncPeer:
    """Base of a peer whose producer API is synchronous."""

    chunk = 1000  # jobs per bulk call

    def setup(self) -> None:
        """Make the tables, where the system does not do so by itself."""

    def open(self) -> None:
        """Connect."""

    def put(self, index: int, kind: str) -> None:
        """Enqueue one job."""
        raise NotImplementedError

    def put_many(self, indexes: range, kind: str) -> None:
        """Enqueue many jobs in one call."""
        raise NotImplementedError

    def work(self) -> None:
        """Be a worker, in the foreground."""
        raise NotImplementedError

    def produce(self, count: int, kind: str, first: int) -> float:
        """Enqueue one by one; answers seconds."""
        self.open()
        self.put(first, kind)  # the first call opens the connection
        began = time.perf_counter()
        for index in range(first + 1, first + count):
            self.put(index, kind)
        return (time.perf_counter() - began) * count / max(1, count - 1)

    def bulk(self, count: int, kind: str, first: int) -> float:
        """Enqueue with the bulk call; answers seconds."""
        self.open()
        began = time.perf_counter()
        for indexes in chunks(count, first, self.chunk):
            self.put_many(indexes, kind)
        return time.perf_counter() - began

    def latency(self, count: int, widest: float) -> list[float]:
        """Seconds from just before the enqueue call to the job's first line."""
        self.open()
        samples = []
        for number in range(count + WARMUP):
            time.sleep(gap(widest))
            before = entries()
            sent = time.monotonic()
            self.put(number, "noop")
            while entries() <= before:
                expect(number, sent)
                time.sleep(0.0005)
            samples.append(stamp(before) - sent)
        return samples[WARMUP:]


class AsyncPeer:
    """Base of a peer whose producer API is asynchronous."""

    chunk = 1000

    def setup(self) -> None:
        """Make the tables, where the system does not do so by itself."""

    async def open(self) -> None:
        """Connect."""

    async def close(self) -> None:
        """Disconnect."""

    async def put(self, index: int, kind: str) -> None:
        """Enqueue one job."""
        raise NotImplementedError

    async def put_many(self, indexes: range, kind: str) -> None:
        """Enqueue many jobs in one call."""
        raise NotImplementedError

    def work(self) -> None:
        """Be a worker, in the foreground."""
        raise NotImplementedError

    def produce(self, count: int, kind: str, first: int) -> float:
        """Enqueue one by one, each awaited; answers seconds."""

        async def go() -> float:
            await self.open()
            await self.put(first, kind)
            began = time.perf_counter()
            for index in range(first + 1, first + count):
                await self.put(index, kind)
            spent = time.perf_counter() - began
            await self.close()
            return spent * count / max(1, count - 1)

        return run_loop(go())

    def bulk(self, count: int, kind: str, first: int) -> float:
        """Enqueue with the bulk call; answers seconds."""

        async def go() -> float:
            await self.open()
            began = time.perf_counter()
            for indexes in chunks(count, first, self.chunk):
                await self.put_many(indexes, kind)
            spent = time.perf_counter() - began
            await self.close()
            return spent

        return run_loop(go())

    def latency(self, count: int, widest: float) -> list[float]:
        """Seconds from just before the enqueue call to the job's first line."""

        async def go() -> list[float]:
            await self.open()
            samples = []
            for number in range(count + WARMUP):
                await asyncio.sleep(gap(widest))
                before = entries()
                sent = time.monotonic()
                await self.put(number, "noop")
                while entries() <= before:
                    expect(number, sent)
                    await asyncio.sleep(0.001)  # uvloop rounds less than this to 0, and would spin
                samples.append(stamp(before) - sent)
            await self.close()
            return samples[WARMUP:]

        return run_loop(go())


def main(peer: SyncPeer | AsyncPeer, **more: Callable[..., dict[str, Any]]) -> None:
    """Run `setup`, `produce N KIND FIRST`, `bulk N KIND FIRST`, `latency N GAP`, `work`, or a command in `more`."""
    command, *args = sys.argv[1:]
    if command == "work":
        peer.work()
        return
    answer: dict[str, Any]
    if command == "setup":
        peer.setup()
        answer = {}
    elif command in more:
        answer = more[command](*args)
    elif command in {"produce", "bulk"}:
        count, kind, first = int(args[0]), args[1], int(args[2])
        answer = {"n": count, "seconds": getattr(peer, command)(count, kind, first)}
    elif command == "latency":
        answer = {"samples": peer.latency(int(args[0]), float(args[1]))}
    else:
        raise SystemExit(f"unknown command {command}: {main.__doc__}")
    print("RESULT " + json.dumps(answer), flush=True)
