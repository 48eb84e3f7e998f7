"""Jobs of every kind for the simulator: what its tasks do, run by run, is written in their arguments."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, Protocol

import msgspec

from headrace.app import Headrace
from headrace.context import current_job
from headrace.core.backoff import Exponential, Fixed
from headrace.core.operations import Enqueue, NewJob
from headrace.core.retry import Retry
from headrace.core.unique import Unique
from headrace.core.verdict import Cancel, Fail, Pending, RetryIn, Snooze
from headrace.errors import StoreUnavailable
from headrace.testing.circuits import CALL, define_call
from headrace.testing.holds import TOXIC, define_toxic
from headrace.testing.polls import POLL, define_poll, draw_answers
from headrace.testing.scenario import Scenario

QUEUES = ("high", "default", "low")
CHOSEN_IDS = {f"{queue}-{number}" for queue in QUEUES for number in range(4)}
TIMEOUT_S = 6.0
LATEST = 2  # the version of the code that every worker runs in the end
NEVER = 3  # a version that only producers know
UNREADABLE = (b"\xff\xfe", b"[1, 2]", b"", b"[" * 5_000, b'{"task": "plain", "args": 7}')
TOO_NEW = b'{"v": 99, "task": "plain", "args": {}}'


class Stage(Protocol):
    """What a handler may do to the process it runs in, and what it is told of earlier runs."""

    def kill(self, job: str) -> None:
        """Kill this process: `job` is to blame."""
        ...

    def step(self, job: str) -> int:
        """How many runs of the job have come to their own end, in all processes."""
        ...

    def done(self, job: str) -> None:
        """One more."""
        ...

    def reach(self, job: str, token: int) -> bool:
        """A run of the job calls the service: whether it answers."""
        ...

    def bears(self, job: str) -> bool:
        """A run of a toxic job begins: whether this version of the code bears it."""
        ...


def define(app: Headrace, stage: Stage, scenario: Scenario, version: int = LATEST) -> dict[str, Any]:
    """Register the tasks as the code of `version` knows them; returns all of them, also unknown ones, by name."""

    async def act(steps: list[str]) -> Any:
        return await _act(stage, steps)

    def task(name: str, **options: Any) -> Any:
        async def handler(steps: list[str]) -> Any:
            return await act(steps)

        return app.task(name=name, timeout=TIMEOUT_S, **options)(handler)

    async def keyed(key: int, steps: list[str]) -> Any:
        return await act(steps)

    retry, to_start = Retry(max_attempts=4, backoff=Exponential(base=0.5, cap=4)), Unique("start-{key}", until="start")
    tasks = {
        "plain": task("plain", retry=retry),
        "high": task("high", queue="high", retry=retry),
        "low": task("low", queue="low", retry=Retry(max_attempts=6, max_errors=2, backoff=Fixed(1))),
        "once": task("once", retry=Retry.none(), queue="low"),
        "frail": task("frail", retry=Retry(max_attempts=3, max_crashes=2, backoff=Fixed(0.3))),
        "kept": task("kept", keep=3600, retry=retry),
        "until end": app.task(name="until end", unique=Unique("end-{key}"), timeout=TIMEOUT_S, retry=retry)(keyed),
        "until start": app.task(name="until start", unique=to_start, timeout=TIMEOUT_S)(keyed),
    }
    define_poll(app, act, TIMEOUT_S)  # producers place these apart from the others
    define_toxic(app, stage, act, TIMEOUT_S)
    if scenario.calls:
        define_call(app, stage, act, TIMEOUT_S, scenario.retry_budget)
    elsewhere = app if version >= LATEST else Headrace("memory://")  # a rolling deploy: this process is behind

    async def newer(steps: list[str]) -> Any:
        return await act(steps)

    tasks["newer"] = elsewhere.task(name="newer", timeout=TIMEOUT_S, retry=retry)(newer)
    if version > LATEST:
        tasks["ghost"] = app.task(name="ghost")(newer)
    return tasks


async def _act(stage: Stage, steps: list[str]) -> Any:
    """Do what is written for this run; once all is done, succeed."""
    job = current_job().id
    place = stage.step(job)
    kind, _, seconds = (steps[place] if place < len(steps) else "ok:0.01").partition(":")
    if kind in _LONG:
        try:
            return await _LONG[kind]()
        finally:
            stage.done(job)
    await asyncio.sleep(float(seconds))
    if kind == "poison":
        await _die(stage, job)
    stage.done(job)
    if kind == "crash":
        await _die(stage, job)
    return _SHORT[kind]()


async def _die(stage: Stage, job: str) -> None:
    stage.kill(job)
    await asyncio.get_running_loop().create_future()  # nothing follows


def _raising(make: Callable[[], BaseException]) -> Callable[[], Any]:
    def throw() -> Any:
        raise make()

    return throw


class BusyError(Exception):
    """Asks for a pause of its own."""

    retry_after = 2.0


async def _hang() -> None:
    await asyncio.sleep(1_000)


async def _deaf() -> None:
    """Swallow a few cancellations, then return as if nothing had been."""
    for _ in range(3):
        try:
            await asyncio.sleep(40)
        except asyncio.CancelledError:
            continue


async def _grumpy() -> None:
    """Answer a cancellation with an error of its own."""
    try:
        await asyncio.sleep(1_000)
    except asyncio.CancelledError:
        raise ValueError("not now") from None


_LONG = {"hang": _hang, "deaf": _deaf, "grumpy": _grumpy}
_SHORT: dict[str, Callable[[], Any]] = {
    "ok": lambda: None,
    "error": _raising(lambda: ValueError("as written")),
    "busy": _raising(lambda: BusyError("later")),
    "exit": _raising(lambda: SystemExit(3)),
    "retry": lambda: RetryIn(1.5),
    "retry raised": _raising(lambda: RetryIn(0.5)),
    "snooze": lambda: Snooze(2),
    "pending": lambda: Pending("as written"),
    "fail": lambda: Fail("as written"),
    "cancel": lambda: Cancel("as written"),
}
_COMMON = ("error", "error", "busy", "exit", "retry", "retry raised", "snooze", "snooze")


def draw_steps(rng: Random, *, deadly: bool) -> list[str]:
    """What a job does, run by run."""
    seconds = rng.choice((0.01, 0.1, 1.0, 4.0))
    roll = rng.random()
    if deadly and roll < 0.04:
        return [f"poison:{rng.random():.3f}"] * 30
    if deadly and roll < 0.08:
        return [f"crash:{rng.random():.3f}", "ok:0.1"]
    if roll < 0.13:
        return [rng.choice(tuple(_LONG)), f"ok:{seconds}"]
    if roll < 0.17:
        return [rng.choice(("fail", "cancel")) + f":{seconds}"]
    steps = [f"{rng.choice(_COMMON)}:{rng.random():.3f}" for _ in range(rng.choice((0, 0, 0, 1, 1, 2, 3, 6)))]
    return [*steps, f"ok:{rng.random() * seconds:.3f}"]


class Placed(msgspec.Struct):
    """What a producer knows of its jobs."""

    acknowledged: dict[str, list[str]] = {}  # id -> steps; stored for certain
    unreadable: dict[str, bytes] = {}  # id -> body, stored or not
    poison: set[str] = set()


class Producer:
    """Enqueues jobs at random moments, through an app of its own, and remembers what was acknowledged."""

    def __init__(self, app: Headrace, stage: Stage, rng: Random, scenario: Scenario) -> None:
        self._app = app
        self._rng = rng
        self._scenario = scenario
        self._within_s = scenario.chaos_s * 0.8
        self._tasks = define(app, stage, scenario, NEVER if scenario.ghosts else LATEST)
        self.placed = Placed()

    async def run(self) -> None:
        """Place all jobs."""
        loop = asyncio.get_running_loop()
        moments = sorted(self._rng.random() * self._within_s for _ in range(self._scenario.jobs))
        sending = [loop.create_task(self._place_call()) for _ in range(self._scenario.calls)]
        sending += [loop.create_task(self._place_toxic()) for _ in range(self._scenario.toxic)]
        for moment in moments:
            await asyncio.sleep(max(0.0, moment - loop.time()))
            sending.append(loop.create_task(self._place()))
        sending += [loop.create_task(self._place_poll(number)) for number in range(self._scenario.polls)]
        await asyncio.gather(*sending)

    async def _place_call(self) -> None:
        rng = self._rng
        await asyncio.sleep(rng.random() * self._within_s)
        steps = draw_steps(rng, deadly=False)
        try:
            job = await self._app.tasks[CALL].aenqueue(steps=steps)
        except StoreUnavailable:
            return
        self._acknowledge(job.id, steps)

    async def _place_toxic(self) -> None:
        await asyncio.sleep(self._rng.random() * self._within_s)
        seconds = round(self._rng.random(), 3)
        try:
            job = await self._app.tasks[TOXIC].aenqueue(seconds=seconds)
        except StoreUnavailable:
            return
        self._acknowledge(job.id, [f"ok:{seconds}"])

    async def _place_poll(self, number: int) -> None:
        rng = self._rng
        await asyncio.sleep(rng.random() * self._within_s)
        steps = draw_answers(rng, deadly=self._scenario.deadly)
        try:
            job = await self._app.tasks[POLL].aenqueue(key=number // 2, steps=steps)
        except StoreUnavailable:
            return
        if job.status == "new":
            self._acknowledge(job.id, steps)

    async def _place(self) -> None:
        roll = self._rng.random()
        try:
            if roll < 0.05:
                await self._place_unreadable()
            elif roll < 0.15:
                await self._place_many()
            else:
                await self._place_one()
        except StoreUnavailable:
            return  # nobody was promised anything

    async def _place_one(self) -> None:
        rng = self._rng
        name = rng.choice(tuple(self._tasks))
        steps = draw_steps(rng, deadly=self._scenario.deadly)
        arguments: dict[str, Any] = {"steps": steps}
        if name.startswith("until"):
            arguments["key"] = rng.randrange(2)
        task = self._tasks[name]
        task = task.using(**self._draw_options(task.queue))
        job = await task.aenqueue(**arguments)
        if job.status == "new":
            self._acknowledge(job.id, steps)

    def _draw_options(self, queue: str) -> dict[str, Any]:
        rng, options = self._rng, dict[str, Any]()
        if rng.random() < 0.2:
            options["run_after"] = rng.choice((0.5, 3, 15))
        if rng.random() < 0.2:
            options["priority"] = rng.choice((-10, 5, 50))
        after = options.get("run_after", 0)
        if rng.random() < 0.05:
            options["expires"] = after + rng.choice((1, 20))
        if rng.random() < 0.05:
            options["deadline"] = after + rng.choice((3, 30))
        if rng.random() < 0.1:
            options["id"] = f"{queue}-{rng.randrange(4)}"  # a double click; an id belongs to one queue
        return options

    async def _place_many(self) -> None:
        rng = self._rng
        calls = [{"steps": draw_steps(rng, deadly=False)} for _ in range(rng.randrange(2, 6))]
        jobs = await self._tasks["plain"].aenqueue_many(calls, spread_over=rng.choice((None, 5)))
        for job, call in zip(jobs, calls, strict=True):
            self._acknowledge(job.id, call["steps"])

    async def _place_unreadable(self) -> None:
        id = self._app.new_id()
        body = self._rng.choice((*UNREADABLE, TOO_NEW) if self._scenario.ghosts else UNREADABLE)
        self.placed.unreadable[id] = body
        await self._app.driver.arun(Enqueue((NewJob(id, "default", "plain", body),)))
        self.placed.acknowledged[id] = ["unreadable"]

    def _acknowledge(self, id: str, steps: list[str]) -> None:
        self.placed.acknowledged[id] = steps
        if steps and steps[0].startswith("poison"):
            self.placed.poison.add(id)
