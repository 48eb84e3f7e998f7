"""What a worker does about jobs that fail: the jobs of the hooks for that."""

from __future__ import annotations

import logging

import msgspec

from headrace.core import endings
from headrace.core.failures import failure
from headrace.core.operations import Outcome
from headrace.failures.hooks import FailureHooks
from headrace.worker.table import Work

logger = logging.getLogger("headrace.worker")


def tell_hooks(hooks: FailureHooks, work: Work, ending: endings.Ending, outcome: Outcome) -> Outcome:
    """The outcome of a job that has failed, with the jobs of the hooks that are to know (B138)."""
    if not hooks:
        return outcome
    named = "" if work.envelope is None else work.envelope.task
    task = named if work.task is None else work.task.name
    try:
        jobs = hooks.jobs(work.job, work.envelope, failure(work.job, work.envelope, task, ending, outcome))
    except (TypeError, ValueError, RecursionError):  # it fails all the same: nothing of it can be trusted
        logger.exception("no hook is told that job %s has failed", work.job.id, extra=work.describe())
        return outcome
    return msgspec.structs.replace(outcome, then=(*outcome.then, *jobs)) if jobs else outcome
