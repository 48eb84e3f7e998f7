"""What a worker does about polls beyond what it does about every task: the jobs of their hooks."""

from __future__ import annotations

from typing import Any

import msgspec

from headrace.core import endings, values
from headrace.core.operations import Outcome
from headrace.core.poll import TIMED_OUT
from headrace.core.states import State
from headrace.errors import InvalidArguments, PayloadTooLarge
from headrace.polling import PollTask
from headrace.worker.table import Work


def answered(work: Work, value: Any) -> endings.Ending:
    """How a query ended that returned `value`. What cannot be handed to `on_final` fails the poll, and is not lost."""
    assert isinstance(work.task, PollTask)
    assert work.envelope is not None
    if work.completing:  # it has ended itself, with a value of its own, in a transaction that may be rolled back
        return endings.SUCCEEDED
    try:
        work.task.follower(work.job, work.envelope, value)
    except (InvalidArguments, PayloadTooLarge) as error:
        return endings.BadArguments(f"{error}. The query returned {values.short(value)}", "bad result")
    return endings.Succeeded(value)


def follow(work: Work, ending: endings.Ending, outcome: Outcome) -> Outcome:
    """The outcome of a poll, with the job of the hook for it.

    Raises:
        InvalidArguments, PayloadTooLarge: a query has completed its job itself, with a result that does not fit.
    """
    assert isinstance(work.task, PollTask)
    if work.envelope is None or ending is endings.SUCCEEDED:  # for the log only: its handler has stored it
        return outcome
    job = None
    if isinstance(ending, endings.Succeeded):
        job = work.task.follower(work.job, work.envelope, ending.value)
    elif outcome.state is State.EXPIRED and outcome.reason == TIMED_OUT:
        job = work.task.follower_in_vain(work.job, work.envelope)
    return outcome if job is None else msgspec.structs.replace(outcome, then=(job,))
