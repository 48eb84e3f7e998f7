"""What really ran: every run of every handler, seen from inside the workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from headrace.context import JobContext
from headrace.core.verdict import Verdict
from headrace.middleware import Middleware
from headrace.middleware import Run as Call


class Run(msgspec.Struct):
    """One run of one claim. `ended`: "" while it goes on, "returned", "raised", "interrupted", or a verdict's name."""

    job: str
    token: int
    worker: str
    started_s: float
    timeout_s: float | None = None
    ended: str = ""
    ended_s: float = 0.0
    may_be_interrupted: bool = False  # its worker was stopping, or had lost it

    @property
    def lasted_s(self) -> float:
        """Seconds."""
        return self.ended_s - self.started_s

    @property
    def overran(self) -> bool:
        """Whether it was longer under way than its timeout allows."""
        return self.timeout_s is not None and self.lasted_s >= self.timeout_s - 0.001


class Runs:
    """All runs by (job, token), the claims they rest on, and which job killed which worker."""

    def __init__(self) -> None:
        self._runs: dict[tuple[str, int], Run] = {}
        self._claims: dict[tuple[str, int], str] = {}
        self._killers: dict[str, str] = {}

    def claimed(self, job: str, token: int, worker: str) -> None:
        """A claim has taken place in the store."""
        self._claims[job, token] = worker

    def start(self, run: Run) -> str:
        """Enter a run; says what is wrong with it, if anything."""
        key = (run.job, run.token)
        known = self._runs.get(key)
        self._runs[key] = run
        if self._claims.get(key) != run.worker:
            return f"{run.worker} runs it without a claim (token {run.token})"
        return f"{run.worker} runs one claim twice (token {run.token})" if known is not None else ""

    def of(self, job: str, token: int) -> Run | None:
        """The run of a claim, if it has started."""
        return self._runs.get((job, token))

    def of_job(self, job: str) -> list[Run]:
        """All runs of a job, oldest first."""
        return [run for run in self._runs.values() if run.job == job]

    def killed(self, worker: str, job: str) -> None:
        """`job` has killed the process of `worker`."""
        self._killers[worker] = job

    def killer_of(self, worker: str) -> str | None:
        """The job that killed a worker's process; None when it died otherwise or lives."""
        return self._killers.get(worker)


class Witness(Middleware):
    """Tells `Runs` of each run of one worker.

    `held(job, token)`: whether the worker may start it at this moment; `excused(job, token)`: whether it may stop it.
    """

    def __init__(
        self,
        runs: Runs,
        worker: str,
        timeout_of: Callable[[str], float | None],
        *,
        held: Callable[[str, int], bool],
        excused: Callable[[str, int], bool],
        broken: Callable[[str, str, str], None],
    ) -> None:
        self._runs = runs
        self._worker = worker
        self._timeout_of = timeout_of
        self._held = held
        self._excused = excused
        self._broken = broken

    async def around(self, job: JobContext, run: Call) -> Any:
        """Write down when it starts and how it ends."""
        now = asyncio.get_running_loop().time
        entry = Run(job.id, job.token, self._worker, now(), self._timeout_of(job.task))
        problem = self._runs.start(entry)
        if problem:
            self._broken("one run per claim", job.id, problem)
        if not self._held(job.id, job.token):
            self._broken("live lease", job.id, f"{self._worker} starts a run whose lease is over (token {job.token})")
        ended = "interrupted"
        try:
            value = await run()
        except Verdict as verdict:
            ended = type(verdict).__name__
            raise
        except asyncio.CancelledError:
            raise
        except BaseException:
            ended = "raised"
            raise
        else:
            ended = type(value).__name__ if isinstance(value, Verdict) else "returned"
            return value
        finally:
            entry.ended_s = now()
            if job.cancel_requested and ended == "raised":
                ended = "interrupted"  # whatever a handler makes of its cancellation
            entry.ended = ended
            entry.may_be_interrupted = ended != "interrupted" or self._excused(job.id, job.token)
