"""What every SQL store promises those who ask whether a handler's own transaction has ended a job."""

from __future__ import annotations

from headrace.core import operations as ops
from headrace.core.states import State
from headrace.core.transactions import Completed
from headrace.testing.conformance.harness import Guarantee, Harness

COMPLETION_GUARANTEES: dict[str, Guarantee] = {}
KEEP = 3600 * 1_000_000


def promised(check: Guarantee) -> Guarantee:
    """Enter `check` under its name."""
    COMPLETION_GUARANTEES[check.__name__] = check
    return check


def completed(h: Harness, job: ops.ClaimedJob) -> str:
    """The answer for this claim."""
    return h.run(Completed(job.id, job.token))


@promised
def a_job_that_is_running_under_its_token_is_not_completed(h: Harness) -> None:
    assert completed(h, h.running("a")) == "no"


@promised
def a_job_that_has_ended_under_its_token_is_completed_whether_it_is_kept_or_not(h: Harness) -> None:
    assert completed(h, h.finished("a")) == "yes"
    assert completed(h, h.finished("b", keep_us=KEEP)) == "yes"


@promised
def a_job_that_has_gone_back_is_not_completed_whoever_has_it_now(h: Harness) -> None:
    first = h.running("a")
    assert h.settle(first, State.READY)
    assert completed(h, first) == "no"
    second = h.take()[0]
    assert (completed(h, first), completed(h, second)) == ("no", "no")


@promised
def a_job_that_somebody_else_has_ended_is_not_completed(h: Harness) -> None:
    first = h.running("a")
    h.crash()
    second = h.take(worker="w2")[0]
    assert h.settle(second, State.SUCCEEDED, worker="w2")
    assert (completed(h, first), completed(h, second)) == ("no", "yes")


@promised
def a_job_that_somebody_else_has_ended_and_that_is_kept_is_not_completed(h: Harness) -> None:
    first = h.running("a")
    h.crash()
    assert h.settle(h.take(worker="w2")[0], State.SUCCEEDED, worker="w2", keep_us=KEEP)
    assert completed(h, first) == "no"


@promised
def asking_changes_nothing(h: Harness) -> None:
    job = h.running("a")
    before = h.get("a")
    completed(h, job)
    assert h.get("a") == before
    assert h.settle(job, State.SUCCEEDED)
