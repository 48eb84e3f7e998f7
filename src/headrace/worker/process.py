"""Runs one worker as this process: event loop, signals, recycling."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable

from headrace.worker import handover
from headrace.worker.runner import Exit, Leftovers, Worker

try:
    import uvloop
except ImportError:  # an extra: `headrace[fast]`
    _new_event_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
else:
    _new_event_loop = uvloop.new_event_loop

logger = logging.getLogger("headrace.worker")

SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGBREAK")  # those the platform has (B123)
YOUNG = 10_000  # objects made between two looks for garbage in cycles: a job makes about ten, and leaves no cycle
CLOSE_S = 5.0  # how long a frozen server may hold up the end of a process

Close = Callable[[], Awaitable[None]]


def run_worker(make: Callable[[], Worker], close: Close) -> None:
    """Run the worker that `make` builds inside the loop, until a signal or a limit ends it, and `close` its app.

    The first SIGTERM or SIGINT stops it gracefully, a second one at once. A worker that recycles is replaced by
    a fresh process of the same command line, under the same process id. Handlers that do not end do not hold
    up the end of the process; where a coroutine ignores its cancellation, the exit code is 1.
    """
    _spare_the_collector()
    with asyncio.Runner(loop_factory=_new_event_loop) as runner:
        why, leftovers = runner.run(_serve(make, close))
        if why is Exit.RECYCLE:
            _start_anew()
        if leftovers.coroutines or leftovers.threads:
            # closing the loop would wait for them (B108); their jobs have been handed back
            logging.shutdown()
            os._exit(1 if leftovers.coroutines else 0)


def _spare_the_collector() -> None:
    """Python's own settings would spend a tenth of a busy worker's time on looking through what is in use anyway."""
    gc.collect()
    gc.freeze()  # what has been imported stays for good, and is never looked through again
    gc.set_threshold(YOUNG, *gc.get_threshold()[1:])


async def _serve(make: Callable[[], Worker], close: Close) -> tuple[Exit, Leftovers]:
    worker = make()
    worker.inherited = handover.take(os.environ)
    if worker.inherited is not None:
        _wait_for_the_dead()
    on_signals(worker.stop)
    why = await worker.run()
    if not any(worker.leftovers):  # handlers that do not end may be using the connections
        await closed(close)
    if why is Exit.RECYCLE:
        handover.leave(worker.heart.handover(), os.environ)
        why = await _last_signals(worker)
    return why, worker.leftovers


def _wait_for_the_dead() -> None:
    """Processes that the image before this one has started, as multiprocessing does. Nobody else takes notice."""
    if hasattr(os, "WNOHANG"):
        with contextlib.suppress(ChildProcessError):  # no more children
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue


def on_signals(stop: Callable[[], None]) -> None:
    """Have the running loop call `stop` for each signal that asks a process to end."""
    loop = asyncio.get_running_loop()
    for name in SIGNALS:
        number = getattr(signal, name, None)
        if number is None or signal.getsignal(number) is signal.SIG_IGN:  # nohup, and background jobs of scripts
            continue
        with contextlib.suppress(NotImplementedError, RuntimeError):
            loop.add_signal_handler(number, stop)
            continue
        # Windows has no add_signal_handler
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop))


async def closed(close: Close) -> None:
    """Close what a process has opened, while its loop can still do so; whatever comes of it, the process ends."""
    try:
        async with asyncio.timeout(CLOSE_S):
            await close()
    except Exception:
        logger.exception("connections could not be closed within %.0f s", CLOSE_S)


async def _last_signals(worker: Worker) -> Exit:
    """From here on a signal ends the process at once; one that came just before must not be lost in starting anew."""
    for name in SIGNALS:
        if (number := getattr(signal, name, None)) is not None:
            signal.signal(number, signal.SIG_DFL)
    await asyncio.sleep(0.01)  # the loop hears what was caught before
    return worker.exit


def _start_anew() -> None:
    """Replace this process: memory, threads and imports begin afresh (B115)."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
