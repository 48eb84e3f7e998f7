"""What the tests of endings share: one job, one way to end it."""

import random
from collections.abc import Callable
from typing import Any

from headrace.core import endings, trail
from headrace.core.backoff import Fixed
from headrace.core.endings import Ending
from headrace.core.operations import ClaimedJob, Outcome
from headrace.core.retry import Retry
from headrace.core.settle import SECOND, Policy, conclude
from headrace.core.states import State
from headrace.core.trail import EMPTY, Trail

NOW = 1_700_000_000 * SECOND
JOB = ClaimedJob("job", "mail", 77, b"{}", None, NOW - SECOND, NOW - SECOND)


def policy(retry: Retry | None = None, **options: Any) -> Policy:
    return Policy(retry or Retry(backoff=Fixed(10)), **options)


def end(ending: Ending, before: Trail = EMPTY, by: Policy | None = None, now_us: int = NOW) -> tuple[Outcome, Trail]:
    """The outcome, and the trail that the next worker will read."""
    outcome = conclude(JOB, before, ending, by or policy(), now_us=now_us, worker="w", rng=random.Random(1))
    assert (outcome.id, outcome.queue, outcome.token) == (JOB.id, JOB.queue, JOB.token)
    return outcome, before if outcome.trail is None else trail.decode(outcome.trail)


def rerun(make: Callable[[], Ending], by: Policy) -> tuple[list[float], Outcome, Trail]:
    """The delays until it fails, in seconds, and how it failed."""
    kept, waits = EMPTY, list[float]()
    while len(waits) < 50:
        outcome, kept = end(make(), kept, by)
        if outcome.state is not State.SCHEDULED:
            return waits, outcome, kept
        waits.append(outcome.delay_us / SECOND)
    raise AssertionError("it never ends")


def raised() -> Ending:
    return endings.Raised(ValueError("why"), NOW - 5)
