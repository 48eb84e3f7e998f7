"""What became of a job whose handler has completed it in a transaction of its own: only the store knows."""

from __future__ import annotations

import asyncio
import logging

from headrace.core import endings
from headrace.core.transactions import Completed
from headrace.errors import RolledBack
from headrace.worker.retrying import Backoff, until_answered
from headrace.worker.shared import Shared
from headrace.worker.table import Work

logger = logging.getLogger("headrace.worker")

PAUSE_S = (0.01, 1.0)  # between two looks: the first and the longest
SAY_AFTER_S = 5.0
STILL_OPEN = (
    "job %s: its handler has returned, but the transaction that completed it is still open; waiting for its end"
)


async def committed(work: Work, shared: Shared) -> bool | None:
    """Whether that transaction was committed. None: it is still open, and this worker ends.

    A handler that returns before its commit is waited for as long as it takes, beside all other work: another run
    beside an open transaction would be a second one, and to end the job in another way would wait for its locks.
    """
    ask, backoff = Completed(work.job.id, work.job.token), Backoff(shared.rng)
    began, (pause, longest) = shared.monotonic(), PAUSE_S
    said = told = False
    while True:
        try:
            answer = await until_answered(lambda: shared.driver.arun(ask), backoff, "looking for a completed job")
            if answer != "open":
                return answer == "yes"
            if told:
                return None
            if not said and shared.monotonic() - began > SAY_AFTER_S:
                said = True
                logger.error(STILL_OPEN, work.job.id, extra=work.describe())
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)
        except asyncio.CancelledError:  # the worker ends: one more look
            if told:
                return None
            told = True


def undone(work: Work, ending: endings.Ending) -> endings.Ending:
    """How the run of a job ended that was completed and rolled back. What the handler says itself stands."""
    return endings.Raised(RolledBack(), work.started_us) if isinstance(ending, endings.Succeeded) else ending


def tell_afterwards(work: Work, ending: endings.Ending) -> None:
    """Log what a handler did after the commit that ended its job: it changes nothing any more."""
    said, error = "", ending.error if isinstance(ending, endings.Raised) else None
    match ending:
        case endings.Raised():
            said = "its handler has raised since"
        case endings.TimedOut(seconds=seconds):
            said = f"its handler was still running after {seconds:g} s"
        case endings.Decided(verdict=verdict):
            said = f"its handler has answered {type(verdict).__name__} since"
    if said:
        text = "job %s has ended in a transaction of its handler's; %s, which changes nothing"
        logger.error(text, work.job.id, said, exc_info=error, extra=work.describe())
