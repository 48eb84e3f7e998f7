"""Jobs that have failed, as a worker leaves them."""

from collections.abc import Callable, Iterable
from typing import Any

from headrace import Headrace
from headrace.core import operations as ops
from headrace.core import trail
from headrace.core.states import State
from headrace.core.trail import Mishap, Trail

HOUR_US = 3600 * 1_000_000
TRACE = """Traceback (most recent call last):
  File "/srv/releases/12/shop/mail.py", line {line}, in send
    smtp.send(to)
  File "/srv/venv/lib/python3.13/site-packages/smtp/client.py", line 5, in send
    raise error
{type}: {message}
"""


def claimed(app: Headrace, queue: str = "default") -> list[ops.ClaimedJob]:
    """All that is ready, in the hands of a worker."""
    return app.driver.run(ops.Claim("w1", app.clock.unix_us(), (queue,), 20_000, HOUR_US)).jobs


def settle(app: Headrace, jobs: Iterable[ops.ClaimedJob], state: State = State.FAILED, **more: Any) -> None:
    outcomes = tuple(ops.Outcome(job.id, job.queue, job.token, state, **more) for job in jobs)
    assert all(app.driver.run(ops.Settle("w1", outcomes)))


def memory(error: str = "SMTPError", message: str = "no answer", line: int = 3) -> bytes:
    trace = TRACE.format(line=line, type=error, message=message)
    return trail.encode(
        Trail(attempts=1, errors=1, history=(Mishap("error", 5, 1, "w1", error, message, trace, version="v7"),))
    )


def fail(app: Headrace, enqueue: Callable[[], Any], error: str = "SMTPError", message: str = "no answer") -> str:
    """The id of a job that `enqueue` makes, once it has failed."""
    id: str = enqueue().id
    settle(app, claimed(app), trail=memory(error, message), reason=error)
    return id


def fail_many(app: Headrace, count: int) -> list[str]:
    """Ids of jobs that have failed together."""
    ids = [job.id for job in app.tasks["mail"].enqueue_many([{"number": number} for number in range(count)])]
    settle(app, claimed(app), trail=memory(), reason="SMTPError")
    return ids


def ready(app: Headrace) -> int:
    return sum(queue.ready for queue in app.jobs.queues())


def failed(app: Headrace) -> int:
    return sum(queue.failed for queue in app.jobs.queues())
