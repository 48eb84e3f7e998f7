"""Tasks that run in child processes, in a module that a child can import. What they do is read from a file."""

import asyncio
import contextlib
import ctypes
import logging
import multiprocessing
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

from headrace import (
    Cancel,
    Fail,
    Fixed,
    Headrace,
    JobContext,
    JobInterrupted,
    Middleware,
    Once,
    Pending,
    Retry,
    RetryIn,
    Snooze,
    current_job,
)
from tests.waiting import wait_until

KEEP = 3600.0
KEPT: list[object] = []
AGAIN = Retry(max_attempts=2, max_crashes=2, backoff=Fixed(0))
NEVER = Retry(max_attempts=1, max_crashes=1)

if os.environ.get("TESTS_CHILDREN_BROKEN") and multiprocessing.parent_process() is not None:
    raise RuntimeError("this module cannot be imported in a child process")

app = Headrace(os.environ.get("TESTS_CHILDREN_URL", "memory://"), lease=3, heartbeat=0.1, busy_timeout=1)


def say(path: str, *words: object) -> None:
    """One line more in a file that the test reads."""
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(" ".join(map(str, words)) + "\n")


class Inside(Middleware):
    """Writes what it sees in the process of the handler."""

    @contextlib.contextmanager
    def inside(self, job: JobContext) -> Iterator[None]:
        path = job.headers.get("inside")
        if path:
            say(path, "enter", os.getpid(), job.arguments)
        yield
        if path:
            say(path, "leave", current_job().id)


app.middleware.append(Inside())


@app.task(run_in="process", keep=KEEP, log=["text"])
def note(path: str, text: str, day: UUID | None = None) -> None:
    job = current_job()
    logging.getLogger("shop").warning("about %s", text, extra={"ignored": 1})
    say(path, text, os.getpid(), job.attempt, job.id, job.fence, job.deadline is not None, type(day).__name__)


@app.task(run_in="process", keep=KEEP)
async def anote(path: str, text: str) -> None:
    await asyncio.sleep(0)
    say(path, text, os.getpid(), current_job().attempt, id(asyncio.get_running_loop()))


class Awkward(Exception):
    """What pickle could not bring over (B088)."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__()
        self.lock = threading.Lock()
        self.both = (one, other)

    def __str__(self) -> str:
        raise RuntimeError("this exception cannot be shown")


class Late(Exception):
    retry_after = 3000


def fail_because(how: str) -> None:
    match how:
        case "awkward":
            raise Awkward("a", "b")
        case "group":
            raise ExceptionGroup("two", [ValueError("a"), KeyError("b")])
        case "circle":
            error = ValueError("circle")
            error.__cause__ = error
            raise error
        case "huge":
            raise ValueError("x" * 5_000_000)
        case "exit":
            raise SystemExit(3)
        case "interrupt":
            raise KeyboardInterrupt
        case "memory":
            raise MemoryError
        case "late":
            raise Late("later")
        case "lookup":
            raise KeyError("k")


RULES = Retry(max_attempts=3, backoff=Fixed(600), on=[(LookupError, Fail("no such thing"))])


@app.task(run_in="process", keep=KEEP, retry=RULES)
def fail(how: str) -> None:
    fail_because(how)


@app.task(run_in="process", keep=KEEP, retry=RULES)
async def afail(how: str) -> None:
    fail_because(how)


class Patience(Snooze):
    """A subclass."""


@app.task(run_in="process", keep=KEEP)
def decide(what: str) -> Any:
    match what:
        case "snooze":
            return Snooze(500, "not now")
        case "retry":
            raise RetryIn(400, "again")
        case "fail":
            raise Fail("no use")
        case "cancel":
            return Cancel("not wanted")
        case "pending":
            return Pending("not yet")
        case "own":
            raise Patience("30s", "a verdict of our own")
        case "class":
            return Snooze
    return asyncio.sleep(0)


def end_process(how: str) -> None:
    match how:
        case "exit":
            os._exit(3)
        case "segfault":
            ctypes.string_at(0)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)


@app.task(run_in="process", keep=KEEP, retry=NEVER)
def desert(path: str) -> None:
    say(path, subprocess.Popen(["sleep", "60"]).pid)
    os._exit(3)


@app.task(run_in="process", keep=KEEP, retry=AGAIN)
def die(path: str, how: str, times: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        if Path(path).read_text("ascii").count(current_job().id) >= times:
            return
    say(path, current_job().id)
    end_process(how)


def block(seconds: float = 60) -> None:
    """As a call to somewhere that does not answer."""
    threading.Event().wait(seconds)


def hold_the_interpreter() -> None:
    """As a C extension that never comes back: no signal handler runs, no other thread either."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    ctypes.PyDLL(None).usleep(60_000_000)


@app.task(run_in="process", keep=KEEP, retry=NEVER, timeout=0.4)
def overrun(path: str, how: str) -> None:
    say(path, "begin", os.getpid())
    try:
        match how:
            case "stuck":
                say(path, "begin", subprocess.Popen(["sleep", "60"]).pid)
                hold_the_interpreter()
            case "deaf":
                while True:
                    with contextlib.suppress(BaseException):
                        block()
            case "slow":
                with contextlib.suppress(JobInterrupted):
                    block()
                block(1.5)
                say(path, "slow but sure")
                return
        block()
    except JobInterrupted as error:
        say(path, "cleaned up", error.why, current_job().cancel_requested)
        raise


@app.task(run_in="process", keep=KEEP, retry=NEVER, timeout=0.4)
def sleep_in_c() -> None:
    """Holds the interpreter, and ends with the first signal, as if all were done."""
    sys.setswitchinterval(60)  # no other thread has its turn before this one is through
    ctypes.PyDLL(None).usleep(60_000_000)


@app.task(run_in="process", keep=KEEP, retry=NEVER, timeout=0.4)
async def adoze(seconds: float) -> None:
    block(seconds)


@app.task(run_in="process", keep=KEEP, retry=NEVER, timeout=0.4)
async def aoverrun(path: str) -> None:
    say(path, "begin", os.getpid())
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        say(path, "cleaned up", current_job().cancel_requested)
        raise


@app.task(run_in="process", keep=KEEP, retry=AGAIN, timeout=0.4)
def beside(path: str) -> None:
    """Says whether the process of the attempt before is still there."""
    before = Path(path).read_text("ascii").split() if Path(path).exists() else []
    alive = [pid for pid in before if pid.isdigit() and Path(f"/proc/{pid}").exists()]
    say(path, os.getpid())
    if before:
        say(path, "alive", *alive)
        return
    hold_the_interpreter()


@app.task(run_in="process", keep=KEEP, retry=NEVER, timeout=0.03)
def close(micros: int) -> None:
    block(micros / 1_000_000)


@app.task(run_in="process", keep=KEEP, retry=NEVER, timeout=0.03)
async def aclose(micros: int) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), micros / 1_000_000)


@app.task(run_in="process", keep=KEEP)
def wait(path: str, stubborn: bool = False) -> None:
    say(path, "begin", os.getpid(), os.getpgid(0))
    if stubborn:
        hold_the_interpreter()
    try:
        block()
    except JobInterrupted as error:
        say(path, error.why)
        raise


@app.task(run_in="process", keep=KEEP)
def obey(path: str) -> None:
    say(path, "begin", os.getpid(), os.getpgid(0))
    wait_until(lambda: Path(f"{path}.go").exists(), 60)


@app.task(run_in="process", keep=KEEP, retry=NEVER)
def grow(path: str, megabytes: int, hold: bool) -> None:
    say(path, os.getpid())
    held = bytearray(megabytes * 1_000_000)
    held[::4096] = b"x" * len(held[::4096])
    if hold:
        block()
    keep.append(held)


keep: list[bytearray] = []


@app.task(run_in="process", keep=KEEP, once=Once("sum-{number}"))
def add(path: str, number: int) -> dict[str, int]:
    say(path, current_job().once_key, current_job().once_fence)
    return {"sum": number + 1}


@app.task(run_in="process", keep=KEEP, retry=NEVER)
def overreach(what: str, path: str = "") -> None:
    if what == "complete":
        current_job().complete(transaction=None)
    else:
        note.enqueue(path=path, text="from")


@app.task(run_in="process", keep=KEEP, retry=NEVER, hold_after=None)
def meddle(how: str) -> None:
    """With what is open in the process, as a program does that makes itself a daemon."""
    numbers = [int(entry.name) for entry in Path("/dev/fd").iterdir()]
    mine, other = held = socket.socketpair()
    for number in numbers:
        with contextlib.suppress(OSError):  # the listing itself is over
            if not stat.S_ISSOCK(os.fstat(number).st_mode) or number in (mine.fileno(), other.fileno()):
                continue
            match how:
                case "write":
                    os.write(number, b"garbage")
                case "close":
                    os.close(number)
                case "replace":
                    os.dup2(mine.fileno(), number)
                case "end":
                    socket.socket(fileno=os.dup(number)).shutdown(socket.SHUT_WR)
    if how == "end":
        block()
    KEPT.append(held)


@app.task(keep=KEEP)
async def quick() -> None: ...


@app.task(run_in="process", keep=KEEP, once=Once("odd"))
def odd() -> Any:
    return object()
