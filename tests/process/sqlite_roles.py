"""What the processes of the SQLite tests do: `python -m tests.process.sqlite_roles ROLE FILE ...`.

Every role answers in lines on its standard output and leaves with 0; any error of the store leaves with 1.
"""

import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable

from headrace.core import operations as ops
from headrace.core.states import State
from headrace.drivers.sqlite import SQLiteDriver, checkpoint
from headrace.stores.sqlite import SQLiteStore
from tests.waiting import wait_until

QUEUE = "q"
LEASE_US = 1_000_000


def say(*words: object) -> None:
    print(*words, flush=True)


def open_driver(path: str) -> SQLiteDriver:
    return SQLiteDriver(path, SQLiteStore())


def job(id: str) -> ops.NewJob:
    return ops.NewJob(id, QUEUE, "task", b'{"body":"of a job of ordinary length"}' * 5)


def produce(path: str, prefix: str, count: str) -> None:
    """Enqueue `count` jobs, some alone and some together; say each one that was acknowledged."""
    driver, sizes = open_driver(path), itertools.cycle((1, 1, 1, 20, 1, 50))
    ids = (f"{prefix}-{number}" for number in range(int(count)))
    while some := tuple(itertools.islice(ids, next(sizes))):
        driver.run(ops.Enqueue(tuple(map(job, some))))
        say(*some)
    driver.close()


def work(path: str, name: str, frames: str = "0") -> None:
    """Claim and settle, with a heartbeat of its own each second, until the standard input ends; say what was done."""
    if int(frames):
        checkpoint.LOG_FRAMES = int(frames)
    driver, stop, idle = open_driver(path), threading.Event(), threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
    beating = threading.Thread(target=beat, args=(driver, name, stop))
    beating.start()
    for number in itertools.count(1):
        if stop.is_set():
            break
        jobs = driver.run(ops.Claim(name, number, (QUEUE,), 20, LEASE_US * 20)).jobs
        if not jobs:
            idle.wait(0.01)
            continue
        outcomes = tuple(ops.Outcome(each.id, each.queue, each.token, State.SUCCEEDED) for each in jobs)
        settled = driver.run(ops.Settle(name, outcomes))
        say(*(each.id for each, done in zip(jobs, settled, strict=True) if done))
    beating.join()
    driver.close()


def beat(driver: SQLiteDriver, name: str, stop: threading.Event) -> None:
    while not stop.wait(1.0):
        driver.run(ops.Beat(name, (QUEUE,), LEASE_US * 20, (), 0))


def churn(path: str, prefix: str, frames: str) -> None:
    """Enqueue and finish jobs for ever, folding the log all the time; say each enqueue that was acknowledged."""
    checkpoint.LOG_FRAMES = int(frames)
    driver = open_driver(path)
    for number in itertools.count(1):
        some = tuple(f"{prefix}-{number}-{n}" for n in range(5))
        driver.run(ops.Enqueue(tuple(map(job, some))))
        say(*some)
        jobs = driver.run(ops.Claim(prefix, number, (QUEUE,), 3, LEASE_US)).jobs
        kept = [ops.Outcome(each.id, each.queue, each.token, State.SUCCEEDED, keep_us=10**12) for each in jobs]
        driver.run(ops.Settle(prefix, tuple(kept)))


def prepare(path: str, at: str) -> None:
    """Open a file that is not there yet, together with others, at a moment."""
    driver = open_driver(path)
    threading.Event().wait(max(0.0, float(at) - time.time()))
    driver.run(ops.Enqueue((job(str(os.getpid())),)))
    driver.close()


def fork_workers(path: str, count: str) -> None:
    """Use the file, fork workers that use it too, say their numbers, use it on; end when they have ended."""
    driver = open_driver(path)
    driver.run(ops.Enqueue((job("parent-before"),)))
    children = [in_child(lambda: fork_work(driver)) for _ in range(int(count))]
    say(*children)
    driver.run(ops.Enqueue((job("parent-after"),)))
    for child in children:
        os.waitpid(child, 0)
    driver.close()


def fork_work(driver: SQLiteDriver) -> None:
    name = f"child-{os.getpid()}"
    for number in itertools.count(1):
        jobs = driver.run(ops.Claim(name, number, (QUEUE,), 10, LEASE_US)).jobs
        driver.run(ops.Settle(name, tuple(ops.Outcome(j.id, j.queue, j.token, State.SUCCEEDED) for j in jobs)))
        if not jobs and driver.run(ops.Cancel("stop")) == "cancelled":
            driver.run(ops.Enqueue((ops.NewJob("stop-", "stop", "task", b""),)))
        if not jobs and driver.run(ops.Get("stop-")) is not None:
            return


def fork_busily(path: str, count: str) -> None:
    """Fork again and again while two threads are at it; say how long each child's enqueue took."""
    driver, stop = open_driver(path), threading.Event()
    threads = [threading.Thread(target=hammer, args=(driver, name, stop)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for number in range(int(count)):
        started = time.monotonic()
        child = in_child(lambda id=f"child-{number}": driver.run(ops.Enqueue((job(id),))))  # type: ignore[misc]
        _, status = os.waitpid(child, 0)
        say(status, round(time.monotonic() - started, 3))
    stop.set()
    for thread in threads:
        thread.join()
    driver.close()


def outlive(path: str) -> None:
    """The child of a process that had the file open works on after its parent has gone."""
    driver = open_driver(path)
    driver.run(ops.Enqueue((job("parent"),)))
    if os.fork():
        os._exit(0)
    signal.alarm(30)
    driver.run(ops.Enqueue((job("child-before"),)))
    say("ready")
    wait_until(lambda: driver.run(ops.Get("go-on")), 20)
    driver.run(ops.Enqueue((job("child-after"),)))
    say("done")
    os._exit(0)


def hammer(driver: SQLiteDriver, name: str, stop: threading.Event) -> None:
    for number in itertools.count():
        if stop.is_set():
            return
        driver.run(ops.Enqueue((job(f"{name}-{number}"),)))


def in_child(action: Callable[[], object]) -> int:
    """Fork; the child does `action` and leaves through the interpreter's normal end, as careless code does."""
    child = os.fork()
    if child:
        return child
    signal.alarm(30)
    action()
    sys.exit(0)


ROLES: dict[str, Callable[..., None]] = {
    role.__name__: role for role in (produce, work, churn, prepare, fork_workers, fork_busily, outlive)
}

if __name__ == "__main__":
    ROLES[sys.argv[1]](*sys.argv[2:])
