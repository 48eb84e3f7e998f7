"""What this worker holds, keyed by job and token, and which claims are still unanswered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal

from headrace.completion import Completion
from headrace.context import JobContext
from headrace.core import codec
from headrace.core.codec import Envelope
from headrace.core.operations import ClaimedJob, Held
from headrace.core.trail import Trail
from headrace.errors import UnreadableEnvelope
from headrace.task import Task
from headrace.worker.guard import Guard
from headrace.worker.passes import Pass

Interruption = Literal["", "timeout", "cancel", "shutdown", "lost"]


class Work:
    """One claimed job on its way through the worker."""

    __slots__ = (
        "confirmed_at",
        "context",
        "ended",
        "envelope",
        "fed",
        "gate",
        "guard",
        "interruption",
        "job",
        "kwargs",
        "running",
        "stack",
        "started_us",
        "stop",
        "task",
        "timer",
        "trail",
    )

    def __init__(self, job: ClaimedJob, confirmed_at: float) -> None:
        self.job = job
        self.confirmed_at = confirmed_at  # when the last operation was sent whose answer said that we hold it
        self.envelope: Envelope | None = None
        self.trail: Trail | None = None
        self.task: Task[..., Any] | None = None
        self.kwargs: dict[str, Any] = {}
        self.gate: Pass | None = None  # of a job with a circuit or a retry budget
        self.guard: Guard | None = None  # of a job with a once key
        self.context: JobContext | None = None
        self.running: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.started_us: int | None = None  # set by the first step of its run
        self.stop: Callable[[str], object] | None = None  # while a child process runs it: how that is ended
        self.stack = ""  # where its handler was when its time was over, as far as a child process told
        self.fed = False  # handed to the executor
        self.ended = False  # its outcome has been decided
        self.interruption: Interruption = ""  # why the handler is being cancelled

    def interrupt(self, why: Interruption) -> bool:
        """Ask the handler to stop, once, for the first reason that can stop it. Whether this is news.

        An asynchronous handler is cancelled, a child process is stopped. A thread cannot be: it may look at
        `current_job().cancel_requested`, and is waited for unless its time is over. One that has not begun does not
        begin.
        """
        if self.interruption == why or (self.interruption and self._stops_for(self.interruption)):
            return False
        if self.completing and why in ("lost", "cancel"):
            return False  # once its handler has ended it, it is nobody's; until then it is too late to cancel it
        self.interruption = why
        if self.context is not None:
            self.context.request_cancel()
        # an asyncio task cancelled before its first step would never run, not even to report its end (B108)
        if self.running is not None and self.started_us is not None and self._stops_for(why):
            if self.stop is not None:
                self.stop(why)
            else:
                self.running.cancel()
        return True

    def _stops_for(self, why: Interruption) -> bool:
        if why in ("timeout", "shutdown"):
            return True
        return self.task is not None and (self.task.is_async or self.task.run_in == "process")

    @property
    def _completion(self) -> Completion | None:
        return None if self.context is None else self.context.completion

    @property
    def completing(self) -> bool:
        """Whether its handler may have ended it, in a transaction of its own."""
        return self._completion is not None and self._completion.begun

    @property
    def keeps_others_out(self) -> bool:
        """Whether no other job may run while anything of this one still does."""
        return self.guard is not None or (self.task is not None and self.task.poll is not None)

    def close(self) -> bool:
        """Its run is over. Whether its handler may have ended it."""
        context = self.context
        return context is not None and context.completion is not None and context.completion.close()

    def forestall(self) -> bool:
        """Keep its handler, which goes on, from ending it. False when it is too late for that."""
        return self._completion is None or self._completion.forestall()

    def leave_unreported(self) -> None:
        """The worker ends: if the store still has it, it runs again after its lease."""
        self.ended, self.running = True, None

    def describe(self) -> dict[str, Any]:
        """What every log line about this job carries."""
        task = self.task.name if self.task else self._named_task()
        attempt = (self.trail.attempts if self.trail else 0) + 1
        fields: dict[str, Any] = {"job_id": self.job.id, "task": task, "queue": self.job.queue, "attempt": attempt}
        if self.task and self.task.log:
            fields["arguments"] = {name: self.kwargs.get(name) for name in self.task.log}
        return fields

    def _named_task(self) -> str:
        """The task's name in the message, for a job that has not been prepared yet."""
        try:
            return (self.envelope or codec.decode(self.job.body)).task
        except UnreadableEnvelope:
            return "?"


class Table:
    """Written by the loop's thread only; the heartbeat's thread takes snapshots."""

    def __init__(self) -> None:
        self._works: dict[tuple[str, str, int], Work] = {}
        self.open_claim = 1  # the oldest claim number not answered yet

    def __len__(self) -> int:
        return len(self._works)

    def take(self, jobs: list[ClaimedJob], claim: int, sent: float) -> list[Work]:
        """Enter the jobs of an answered claim that was sent at `sent`. A repeated answer enters none a second time."""
        new = [Work(job, sent) for job in jobs if (job.queue, job.id, job.token) not in self._works]
        for work in new:
            self._works[work.job.queue, work.job.id, work.job.token] = work
        # only now: a heartbeat in between must not take these jobs for forgotten ones
        self.open_claim = claim + 1
        return new

    def drop(self, queue: str, id: str, token: int) -> Work | None:
        """Forget a settled claim."""
        return self._works.pop((queue, id, token), None)

    def snapshot(self) -> tuple[int, tuple[Held, ...]]:
        """The oldest unanswered claim number, read first, and all claims held.

        Of a job that came back while an older claim of it is still being reported, only the newer one: the store
        answers by queue and id.
        """
        open_claim = self.open_claim
        held = {(work.job.queue, work.job.id): work.job for work in list(self._works.values())}
        return open_claim, tuple(Held(job.id, job.queue, job.token) for job in held.values())

    def find(self, held: Held) -> Work | None:
        """The work of a claim."""
        return self._works.get((held.queue, held.id, held.token))

    def works(self) -> list[Work]:
        """All that is held, oldest claim first."""
        return list(self._works.values())
