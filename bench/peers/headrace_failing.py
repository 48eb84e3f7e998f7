"""Jobs that fail in every way, for `headrace work --app headrace_failing:app`; peer_headrace calls its commands.

They are of an app of their own: where no task has a circuit, a worker asks about none.
"""

import asyncio
import ctypes
import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import peerlib as lib
from peer_headrace import CONCURRENCY, URLS

from headrace import FailedFilter, Headrace, Middleware, Retry
from headrace.signals import CircuitChanged

app = Headrace(
    URLS[lib.MODE.removesuffix("-sync")],
    lease=lib.by_profile(30, 30, 30, 3),
    busy_timeout=lib.by_profile(5, 5, 5, 1),
)
OTHERS = 1_000_000  # the first number of the second kind of jobs
STUCK_S = 0.2  # what a stuck job is given
DEPENDENCY = "BENCH_DEPENDENCY"  # its port
PATIENCE_S = 120
supplier = app.circuit("supplier", open_for=1)
down = app.circuit("down", open_for="1h")
healthy = app.circuit("healthy")


def _line() -> socket.socket:
    line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    line.settimeout(0)
    line.connect(("127.0.0.1", int(os.environ[DEPENDENCY])))
    return line


class Ears(Middleware):
    """Tells the dependency when this worker has heard of a transition."""

    def noticed(self, signal: Any) -> None:
        """From then on it knows."""
        if isinstance(signal, CircuitChanged) and signal.circuit == supplier.name:
            with _line() as line:
                line.send(f"={signal.after}".encode())


async def call(order_id: int) -> None:
    """One call, which the dependency sees at once: whoever sends a datagram on loopback delivers it himself."""
    with _line() as line:
        line.send(b"%d" % order_id)
        answer = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(line, 16), lib.ANSWER_S)
    if answer != b"ok":
        raise ConnectionError("503 Service Unavailable")


async def corrupt(order_id: int) -> None:
    """Always fails."""
    raise ValueError(f"order {order_id} has no lines")


def stuck(order_id: int) -> None:
    """As an extension in C that never comes back: nothing but a kill ends it."""
    lib.log_event(order_id, lib.START)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    ctypes.PyDLL(None).usleep(600_000_000)


async def good(order_id: int) -> None:
    """Longer than a poison takes."""
    await asyncio.sleep(0.6)
    lib.log_event(order_id)


async def poison(order_id: int) -> None:
    """Kills its worker, once those beside it run."""
    await asyncio.sleep(0.3)
    os.kill(os.getpid(), signal.SIGKILL)


app.middleware.append(Ears())
TASKS: dict[str, Any] = {
    "noop": app.task(name="noop")(lib.anoop),
    "held": app.task(name="held", circuit=down)(lib.anoop),
    "guarded": app.task(name="guarded", circuit=healthy)(lib.anoop),
    "call": app.task(name="call", circuit=supplier)(call),
    "corrupt": app.task(name="corrupt", retry=1)(corrupt),
    "stuck": app.task(name="stuck", run_in="process", timeout=STUCK_S, retry=Retry(max_attempts=1))(stuck),
    "good": app.task(name="good")(good),
    "poison": app.task(name="poison")(poison),
}


def work(port: str, *options: str) -> None:
    """A worker. Without options as many jobs at once as in the other runs."""
    os.environ[DEPENDENCY] = port
    chosen = options or ("--concurrency", str(CONCURRENCY))
    lib.exec_module("headrace.cli", "work", "--app", "headrace_failing:app", *chosen)


def fill(count: str, together: str, *kinds: str) -> None:
    """So many jobs of each kind, of which so many of one kind follow each other."""
    for begin in range(0, int(count), int(together)):
        numbers = range(begin, min(begin + int(together), int(count)))
        for place, kind in enumerate(kinds):
            TASKS[kind].enqueue_many({"order_id": place * OTHERS + number} for number in numbers)


def open_circuit() -> None:
    """By calls that fail, as it happens."""
    for _ in range(100):
        if down.look().state == "open":
            return
        with suppress(ConnectionError), down.call():
            raise ConnectionError
    raise RuntimeError(f"the circuit is {down.look().state}")


def counted(state: str, count: str) -> dict[str, int]:
    """Wait until so many jobs are in that state, and count them."""
    end = time.monotonic() + PATIENCE_S
    while (found := sum(getattr(view, state) for view in app.jobs.queues())) < int(count) and time.monotonic() < end:
        time.sleep(0.1)
    return {"jobs": found}


def history() -> dict[str, Any]:
    """The transitions of the circuit around the dependency: microseconds of the store's clock, and to which state."""
    found = supplier.look()
    return {"steps": [(step.at_us, step.after) for step in found.history], "probes": found.policy.probes}


def replay() -> dict[str, Any]:
    """All failed jobs by one run, from its start to its end."""
    seen: list[tuple[int, int]] = []
    app.jobs.queues()  # connects
    began = time.perf_counter()
    run = app.jobs.replays.start(FailedFilter())
    run = app.jobs.replays.drive(run.id, progress=lambda done, total: seen.append((done, total)))
    spent = time.perf_counter() - began
    return {"seconds": spent, "replayed": run.replayed, "phase": run.phase, "progress": len(set(seen))}


COMMANDS: dict[str, Callable[..., dict[str, Any] | None]] = {
    "work": work,
    "fill": fill,
    "open": open_circuit,
    "counted": counted,
    "history": history,
    "replay": replay,
}
