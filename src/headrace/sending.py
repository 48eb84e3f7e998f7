"""Carries new jobs to the store, again and again for a few seconds when it does not answer.

Ids are made before the first attempt, so sending a job again is safe; nothing is kept once the call has ended (B112).
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from headrace.core.operations import Enqueue, Enqueued, NewJob
from headrace.core.ports import Clock, Driver
from headrace.drivers.system import SystemClock
from headrace.errors import StoreUnavailable, WrongColour

FIRST_S, CAP_S = 0.05, 1.0


class Producer(Protocol):
    """What a task needs of its app."""

    @property
    def clock(self) -> SystemClock:
        """This machine's clock: to see that a moment and a duration contradict each other."""
        ...

    @property
    def rng(self) -> random.Random:
        """Spreads the first queries of polls."""
        ...

    @property
    def code_version(self) -> str | None:
        """Of the application's code, where it has one: jobs note it."""
        ...

    def hook_failed(self, task: Any, function: Callable[..., Any], options: Mapping[str, Any]) -> Any:
        """Have the task of `function` run when a job of `task` has failed."""
        ...

    def new_id(self) -> str:
        """An id for a job."""
        ...

    def new_ids(self, count: int) -> list[str]:
        """Ids for so many jobs."""
        ...

    def send(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Store jobs, all or none."""
        ...

    async def asend(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """The same, awaited."""
        ...

    async def asend_one(self, job: NewJob) -> Enqueued:
        """Store one job, together with others that are sent at the same time."""
        ...

    def send_in(self, transaction: Any, jobs: Sequence[NewJob]) -> tuple[list[Enqueued], bool]:
        """Store jobs in a transaction of the caller's; and whether they are pending in an outbox."""
        ...

    def send_after(self, transaction: Any, jobs: Sequence[NewJob]) -> None:
        """Store jobs once a transaction of a synchronous caller's has been committed."""
        ...

    def asend_after(self, transaction: Any, jobs: Sequence[NewJob]) -> None:
        """The same for a coroutine's transaction."""
        ...

    async def asend_in(self, transaction: Any, jobs: Sequence[NewJob]) -> tuple[list[Enqueued], bool]:
        """The same, awaited."""
        ...


class App(Protocol):
    """What sending needs of an app; looked up at each use, so that tests may replace any of it."""

    @property
    def driver(self) -> Driver:
        """The store."""
        ...

    @property
    def clock(self) -> Clock:
        """Measures how long the store has not answered."""
        ...

    @property
    def rng(self) -> random.Random:
        """Jitter."""
        ...


class Sender:
    """Enqueues for synchronous callers."""

    def __init__(self, app: App, resend_s: float) -> None:
        self._app = app
        self.resend_s = resend_s

    def send(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Store `jobs`, all or none; answers stand in their order.

        Raises:
            StoreUnavailable: the store did not answer for `resend` seconds. The jobs may have been stored or not.
        """
        operation = Enqueue(tuple(jobs))
        try:
            return as_new(jobs, self._app.driver.run(operation))
        except StoreUnavailable as error:
            last = error
        for pause in self.pauses():
            self._app.clock.sleep(pause)
            try:
                return as_new(jobs, self._app.driver.run(operation))
            except StoreUnavailable as error:
                last = error
        raise last

    def pauses(self) -> Iterator[float]:
        """Growing, jittered pauses in seconds until `resend` is over."""
        give_up = self.now() + self.resend_s
        ceiling = FIRST_S
        while self.now() < give_up:
            yield self.pause(ceiling, give_up)
            ceiling = min(CAP_S, ceiling * 2)

    def pause(self, ceiling: float, give_up: float | None = None) -> float:
        """Half of `ceiling` or more, in seconds; not beyond the moment `give_up`."""
        pause = ceiling * (0.5 + self._app.rng.random() / 2)
        return pause if give_up is None else max(0.0, min(pause, give_up - self.now()))

    def now(self) -> float:
        """A moment in seconds; only differences mean anything."""
        return self._app.clock.monotonic()


def as_new(jobs: Sequence[NewJob], answers: list[Enqueued]) -> list[Enqueued]:
    """A random id that exists already was stored by our own first attempt, whose answer was lost: it is new."""
    for place, answer in enumerate(answers):
        if answer.status == "exists" and not jobs[place].derived:
            answers = [
                Enqueued("new", answer.id) if answer.status == "exists" and not job.derived else answer
                for job, answer in zip(jobs, answers, strict=True)
            ]
            break
    return answers


def refuse_in_loop(method: str, instead: str) -> None:
    """Refuse to block a running event loop.

    Raises:
        WrongColour: a loop is running in this thread; names what to use instead, the method to await or the block.
    """
    asyncio = sys.modules.get("asyncio")  # not imported yet: no loop can be running
    if asyncio is None:
        return
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    if method.startswith("with "):
        raise WrongColour(f"`{method}` would block the running event loop: use `{instead}`")
    raise WrongColour(f"{method}() would block the running event loop: use `await {instead}(...)`")
