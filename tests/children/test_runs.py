"""Handlers in child processes: what they see, and what comes back of what they return and raise."""

import logging
import os
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from headrace import ChildError, Headrace, JobLogFilter, Middleware, Snooze
from headrace.context import JobContext
from headrace.errors import ConfigError
from headrace.jobinfo import JobInfo
from headrace.middleware import Run
from tests.children import jobs
from tests.children.jobs import app
from tests.waiting import await_until
from tests.worker.working import ended, working

UNIQUE = "5b1ab6bb-18c1-4b5f-93b6-a13a0a1e6b6f"


def lines(path: str) -> list[list[str]]:
    """What the handlers have said."""
    file = Path(path)
    return [line.split() for line in file.read_text("utf-8").splitlines()] if file.exists() else []


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "said")


async def test_a_child_is_warm_and_knows_its_job(path: str, caplog: pytest.LogCaptureFixture) -> None:
    """Plain and async functions, typed arguments, facts, log lines; one process and one event loop for all of them."""
    caplog.handler.addFilter(JobLogFilter())
    async with working(app, processes=1):
        first = await jobs.note.using(deadline="1h").aenqueue(path, "plain", UUID(UNIQUE))
        await ended(app, first.id, "succeeded")
        for text in ("async", "again"):
            await ended(app, (await jobs.anote.aenqueue(path, text)).id, "succeeded")
        inside = jobs.note.using(headers={"inside": path})
        last = await inside.aenqueue(path, "inside")
        await ended(app, last.id, "succeeded")
    plain, one, other, enter, noted, leave = lines(path)
    pid = plain[1]
    assert int(pid) != os.getpid()
    assert plain == ["plain", pid, "1", first.id, plain[4], "True", "UUID"]
    assert (one[1], other[1], one[3]) == (pid, pid, other[3])
    assert enter[:2] == ["enter", pid]
    assert (noted[0], leave) == ("inside", ["leave", last.id])
    said = [record for record in caplog.records if record.name == "shop"]
    assert [record.getMessage() for record in said] == ["about plain", "about inside"]
    assert [(vars(record)["job_id"], vars(record)["arguments"]) for record in said] == [
        (first.id, {"text": "plain"}),
        (last.id, {"text": "inside"}),
    ]


def last_words(job: JobInfo) -> tuple[str, str, str]:
    entry = job.history[-1]
    return job.state.value, entry.type, entry.message


async def test_a_log_line_that_cannot_be_written_costs_no_answer(
    path: str, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    def refuse(record: logging.LogRecord) -> bool:
        raise LookupError(record.name)

    shop = logging.getLogger("shop")
    shop.addFilter(refuse)
    request.addfinalizer(lambda: shop.removeFilter(refuse))
    async with working(app, processes=1):
        for text in ("one", "two"):
            await ended(app, (await jobs.note.aenqueue(path, text)).id, "succeeded")
    assert [line[0] for line in lines(path)] == ["one", "two"]
    assert "a log line of a child process could not be written: LookupError('shop')" in capsys.readouterr().err


async def test_errors_are_told_in_words() -> None:
    """B088, B010: whatever is raised ends its own attempt; the child and the worker live on."""
    expected = {
        "awkward": ("scheduled", "Awkward", "<Awkward.__str__ raised RuntimeError>"),
        "group": ("scheduled", "ExceptionGroup", "two (2 sub-exceptions)"),
        "circle": ("scheduled", "ValueError", "circle"),
        "exit": ("scheduled", "SystemExit", "3"),
        "interrupt": ("scheduled", "KeyboardInterrupt", ""),
        "memory": ("scheduled", "MemoryError", ""),
        "lookup": ("failed", "Fail", "no such thing"),
    }
    async with working(app, processes=1) as worker:
        ids = {how: (await task.aenqueue(how)).id for task in (jobs.fail, jobs.afail) for how in expected}
        for how, id in ids.items():
            job = await ended(app, id, expected[how][0])
            assert last_words(job) == expected[how]
            assert "fail_because" in job.history[0].traceback
        huge = await ended(app, (await jobs.fail.aenqueue("huge")).id, "scheduled")
        assert len(huge.history[0].message) < 3_000
        late = await ended(app, (await jobs.fail.aenqueue("late")).id, "scheduled")
        assert late.due.timestamp() - late.history[0].at_us / 1_000_000 > 2_900  # what it asks for, and not 600 s
        assert len(worker.executor.children) == 1


async def test_verdicts_are_values() -> None:
    async with working(app, processes=1):
        ids = [(await jobs.decide.aenqueue(what)).id for what in ("snooze", "retry", "fail", "cancel")]
        states = [(await ended(app, id, state)) for id, state in zip(ids, ORDER, strict=True)]
        assert (await ended(app, (await jobs.decide.aenqueue("own")).id, "scheduled")).reason == "snoozed"
        pending = await ended(app, (await jobs.decide.aenqueue("pending")).id, "failed")
        assert "only a task made with @app.poll" in last_words(pending)[2]
        wrong = [(await jobs.decide.aenqueue(what)).id for what in ("class", "coroutine")]
        mistakes = [await ended(app, id, "scheduled") for id in wrong]
    assert [(job.reason, job.counts["snoozes"], job.counts["attempts"]) for job in states] == [
        ("snoozed", 1, 0),
        ("retry", 0, 1),
        ("failed", 0, 1),
        ("cancelled", 0, 1),
    ]
    assert [last_words(job)[2] for job in states[2:]] == ["no use", "not wanted"]
    assert "returned the class Snooze" in last_words(mistakes[0])[2]
    assert "returned a coroutine" in last_words(mistakes[1])[2]


ORDER = ("scheduled", "scheduled", "failed", "cancelled")


async def test_a_result_is_kept_under_its_once_key(path: str) -> None:
    async with working(app, processes=1):
        first = await jobs.add.aenqueue(path, 41)
        await ended(app, first.id, "succeeded")
        second = await jobs.add.aenqueue(path, 41)
        assert (await ended(app, second.id, "succeeded")).reason == "done before"
        kept = await app.ajobs.get(first.id)
    assert lines(path)[0][0] == "sum-41"
    assert len(lines(path)) == 1
    assert kept is not None
    assert kept.once is not None
    assert kept.once.result == {"sum": 42}


async def test_what_a_child_cannot_do_is_refused_in_words(path: str) -> None:
    async with working(app, processes=1):
        refused = [(await jobs.overreach.aenqueue(what)).id for what in ("complete", "enqueue")]
        errors = [last_words(await ended(app, id, "failed")) for id in refused]
    assert "cannot be ended in a transaction" in errors[0][2]
    assert "does not see the jobs of memory://" in errors[1][2]


class Around(Middleware):
    """Sees what the handler raised, and makes something else of it."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, bool]] = []

    async def around(self, job: JobContext, run: Run) -> Any:
        try:
            return await run()
        except ChildError as error:
            self.seen.append((error.type, error.message, "fail_because" in error.traceback))
            return Snooze(60)


async def test_middleware_of_the_worker_is_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    around = Around()
    monkeypatch.setattr(app, "middleware", [*app.middleware, around])
    async with working(app, processes=1):
        job = await jobs.fail.aenqueue("lookup")
        await ended(app, job.id, "scheduled")
    assert around.seen == [("KeyError", "'k'", True)]


def test_what_no_other_process_finds_is_refused() -> None:
    other = Headrace("memory://")

    def hidden() -> None: ...

    for function in (hidden, lambda: None):
        with pytest.raises(ConfigError, match="make it a function of its module, or leave out run_in"):
            other.task(run_in="process")(function)
    with pytest.raises(ConfigError, match="run_in is 'thread'"):
        other.task(run_in="thread")(jobs.say)  # type: ignore[call-overload]


async def test_no_child_no_attempt(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A module that cannot be imported in a child: the job is put off unharmed, and the log says why."""
    monkeypatch.setenv("TESTS_CHILDREN_BROKEN", "1")
    async with working(app, processes=1):
        job = await jobs.decide.aenqueue("fail")
        await await_until(lambda: "this module cannot be imported in a child" in caplog.text, 20)
        info = await ended(app, job.id, "scheduled")
        assert (info.counts["attempts"], info.counts["crashes"], info.counts["releases"]) == (0, 0, 1)
        await app.ajobs.cancel(job.id)
    assert [record.levelno for record in caplog.records if "no child process" in record.message] == [logging.ERROR]


async def test_not_each_job_costs_a_child_that_cannot_start(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """B115: one error instead of a loop."""
    monkeypatch.setenv("TESTS_CHILDREN_BROKEN", "1")
    async with working(app, processes=1):
        ids = [(await jobs.decide.aenqueue("fail")).id for _ in range(10)]
        for id in ids:
            await ended(app, id, "scheduled")
        for id in ids:
            await app.ajobs.cancel(id)
    assert len([record for record in caplog.records if "no child process" in record.message]) < 5
