"""Events become jobs: one for each subscriber; and jobs that came through the outbox are enqueued."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from headrace.core.jobrows import job_of
from headrace.core.operations import Enqueued, NewJob
from headrace.core.outbox import JOB_EVENT
from headrace.errors import StoreFull, StoreUnavailable
from headrace.outbox.events import Message
from headrace.outbox.port import Answer
from headrace.outbox.subscribers import Subscriber


class Enqueues(Protocol):
    """What this sink needs of an app."""

    async def asend(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Store jobs, all or none."""
        ...


class JobsSink:
    """Enqueues. A job that exists already was made by the same event before."""

    def __init__(self, app: Enqueues, subscribers: Mapping[str, Sequence[Subscriber]]) -> None:
        """`subscribers` by type of event."""
        self._app = app
        self._subscribers = subscribers

    def takes(self, event_type: str) -> bool:
        """Whether an event of this type makes a job."""
        return event_type == JOB_EVENT or bool(self._subscribers.get(event_type))

    async def publish(self, messages: Sequence[Message]) -> list[Answer]:
        """All in one enqueue. Where the store refuses that, each event goes alone: one's trouble is not the others'."""
        made: list[list[NewJob] | Exception] = [self._made(message) for message in messages]
        blocked: dict[tuple[str, str], Exception] = {}
        for place, message in enumerate(messages):
            lane = message.event.aggregate_type, message.event.aggregate_id
            jobs = made[place]
            if lane in blocked:
                made[place] = blocked[lane]
            elif isinstance(jobs, Exception):
                blocked[lane] = jobs
        good = [(place, jobs) for place, jobs in enumerate(made) if not isinstance(jobs, Exception)]
        answers: list[Answer] = [jobs if isinstance(jobs, Exception) else None for jobs in made]
        try:
            enqueued = iter(await self._app.asend([job for _, jobs in good for job in jobs]) if good else ())
            for place, jobs in good:
                answers[place] = _remark([next(enqueued) for _ in jobs], jobs)
        except (StoreUnavailable, StoreFull):
            raise
        except Exception:
            if len(messages) == 1:
                raise
            return await self._one_by_one(messages)
        return answers

    async def _one_by_one(self, messages: Sequence[Message]) -> list[Answer]:
        answers: list[Answer] = []
        blocked: dict[tuple[str, str], Exception] = {}
        for message in messages:
            lane = message.event.aggregate_type, message.event.aggregate_id
            if lane not in blocked:
                try:
                    answers += await self.publish([message])
                    continue
                except (StoreUnavailable, StoreFull):
                    raise
                except Exception as error:  # noqa: BLE001 - becomes this event's answer, which the relay reports
                    blocked[lane] = error
            answers.append(blocked[lane])
        return answers

    def _made(self, message: Message) -> list[NewJob] | Exception:
        try:
            if message.event.type == JOB_EVENT:
                return [job_of(message.payload, message.waited_us)]
            return [subscriber.job(message) for subscriber in self._subscribers.get(message.event.type, ())]
        except Exception as error:  # noqa: BLE001 - becomes this event's answer, which the relay reports
            return error

    async def aclose(self) -> None:
        """Nothing: the store is the app's."""


def _remark(answers: Sequence[Enqueued], jobs: Sequence[NewJob]) -> str | None:
    """Who holds the unique key, where a job was dropped for it: the dropped id is another name of the holder's."""
    duplicates = [
        f"{job.id} is a duplicate of {answer.id}"
        for job, answer in zip(jobs, answers, strict=True)
        if answer.status == "duplicate"
    ]
    return "; ".join(duplicates) or None
