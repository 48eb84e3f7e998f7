"""The timeout of one run, and what is done about a handler that ignores it."""

from __future__ import annotations

import asyncio
import logging

from headrace.worker.table import Work

logger = logging.getLogger("headrace.worker")

RECANCEL_S = 1.0  # a handler that swallows its cancellation is cancelled again this often


def timeout_of(work: Work) -> float | None:
    """In seconds; the job's own, or that of its task."""
    assert work.task is not None
    assert work.envelope is not None
    return work.envelope.timeout_us / 1_000_000 if work.envelope.timeout_us else work.task.timeout_s


def start_timer(work: Work) -> None:
    """From here on its time counts."""
    seconds = timeout_of(work)
    if seconds is not None and work.timer is None:
        work.timer = asyncio.get_running_loop().call_later(seconds, _expire, work)


def stop_timer(work: Work) -> None:
    """It has come to an end."""
    if work.timer is not None:
        work.timer.cancel()
        work.timer = None


def is_over(work: Work) -> bool:
    """Whether its time is over, also where its handler has kept the loop from noticing."""
    return work.timer is not None and work.timer.when() <= asyncio.get_running_loop().time()


def _expire(work: Work) -> None:
    work.interrupt("timeout")
    if work.running is not None and not work.running.done():
        # whatever it was asked to stop for
        work.timer = asyncio.get_running_loop().call_later(RECANCEL_S, _cancel_again, work)


def _cancel_again(work: Work) -> None:
    if work.running is None or work.running.done():
        return
    if work.stop is None:  # a child process is stopped step by step, and its end awaited
        logger.warning("job %s ignores its cancellation", work.job.id, extra=work.describe())
        work.running.cancel()
    work.timer = asyncio.get_running_loop().call_later(RECANCEL_S, _cancel_again, work)
