"""Looking at and acting on jobs: `app.jobs` and its awaited twin."""

import asyncio
import inspect
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace import ConfigError, Headrace, State, WrongColour
from headrace.ajobs import AsyncJobs
from headrace.core import operations as ops
from headrace.core import trail
from headrace.core.trail import Mishap, Trail
from headrace.failures.replays import AsyncReplays, Replays
from headrace.jobinfo import job_info
from headrace.jobs import Jobs
from headrace.task import Task
from tests.public.drivers import WatchedDriver, define

DEEP = b'{"v":1,"id":"1","task":"t","args":{"a":' + b"[" * 100_000
RAW = [b"", b"\xff\x00", b"\x80\x04pickle", b"[]", b'{"v":9}', DEEP]


def put(driver: WatchedDriver, id: str, body: bytes, queue: str = "default", task: str = "mail") -> None:
    driver.run(ops.Enqueue((ops.NewJob(id, queue, task, body),)))


class Holder:
    """Claims and settles as a worker does."""

    def __init__(self, driver: WatchedDriver) -> None:
        self.driver = driver
        self.number = 0

    def claim(self, queue: str = "default", limit: int = 1_000) -> list[ops.ClaimedJob]:
        self.number += 1
        return self.driver.run(ops.Claim("w1", self.number, (queue,), limit, 30_000_000)).jobs

    def end(self, state: State = State.FAILED, queue: str = "default", **more: Any) -> list[str]:
        jobs = self.claim(queue)
        self.driver.run(
            ops.Settle("w1", tuple(ops.Outcome(job.id, job.queue, job.token, state, **more) for job in jobs))
        )
        return [job.id for job in jobs]


@pytest.fixture
def holder(driver: WatchedDriver) -> Holder:
    return Holder(driver)


@pytest.fixture
def task(app: Headrace) -> Task[..., Any]:
    return define(app, name="mail", log=("order_id",))


# -- twins


@pytest.mark.parametrize(("first", "second", "least"), [(Jobs, AsyncJobs, 12), (Replays, AsyncReplays, 5)])
def test_the_twins_have_the_same_methods(first: type, second: type, least: int) -> None:
    def methods(cls: type) -> dict[str, Any]:
        return {name: member for name, member in vars(cls).items() if not name.startswith("_")}

    sync, awaited = methods(first), methods(second)
    assert list(sync) == list(awaited)
    assert len(sync) >= least
    for name, method in sync.items():
        twin = awaited[name]
        assert inspect.signature(method) == inspect.signature(twin), name
        assert inspect.getdoc(method) == inspect.getdoc(twin), name
        assert inspect.iscoroutinefunction(twin), name
        assert not inspect.iscoroutinefunction(method), name


def test_the_twins_give_the_same_answers(app: Headrace, task: Task[..., Any], holder: Holder) -> None:
    ids = [task.enqueue(number).id for number in range(3)]
    task.using(queue="other").enqueue(9)
    holder.end(State.FAILED, reason="ValueError")
    calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
        ("get", (ids[0],), {}),
        ("get", ("nobody",), {}),
        ("once", ("nothing", "k"), {"queue": "default"}),
        ("list", ("failed",), {"limit": 2}),
        ("queues", (), {}),
        ("workers", (), {}),
        ("why", ("nobody",), {}),
        ("why", (ids[0],), {}),
        ("check_waiting", (), {}),
        ("inspect", (), {}),
        ("cancel", ("nobody",), {}),
        ("retry", ([],), {}),
        ("retry_failed", (), {"queue": "nothing"}),
        ("forget", ("nobody",), {}),
        ("forget_failed", (), {"queue": "nothing"}),
        ("find_failed", (), {"limit": 2}),
        ("failure_groups", (), {}),
        ("edit", (ids[0], {"order_id": 5}), {"by": "x", "dry_run": True}),
        ("prune", (), {"most": 100}),
    ]
    assert {name for name, _, _ in calls} == {name for name in vars(Jobs) if not name.startswith("_")}
    for name, args, kwargs in calls:
        answer = getattr(app.jobs, name)(*args, **kwargs)
        assert asyncio.run(getattr(app.ajobs, name)(*args, **kwargs)) == answer, name


# -- looking


def test_a_job_is_shown_with_arguments_counts_and_history(app: Headrace, task: Task[..., Any], holder: Holder) -> None:
    job = task.using(priority=3, tags=["x"]).enqueue(17)
    mishap = Mishap("error", 1, 1, "w1", "ValueError", "no such order", "Traceback ...")
    remembered = trail.encode(Trail(attempts=2, errors=1, releases=4, history=(mishap,)))
    holder.end(State.FAILED, trail=remembered, reason="ValueError")
    info = app.jobs.get(job.id)
    assert info is not None
    assert (info.state, info.args, info.priority, info.task) == (State.FAILED, {"order_id": 17}, 3, "mail")
    assert {name: count for name, count in info.counts.items() if count} == {"attempts": 2, "errors": 1, "releases": 4}
    assert info.history == (mishap,)
    assert (info.failure, info.traceback, info.problem) == ("ValueError: no such order", "Traceback ...", "")
    assert info.envelope is not None
    assert info.envelope.tags == ("x",)


def test_moments_are_aware_and_in_utc(app: Headrace, task: Task[..., Any]) -> None:  # B143
    before = datetime.now(UTC)
    info = app.jobs.get(task.using(run_after=timedelta(hours=1)).enqueue(1).id)
    assert info is not None
    assert before - timedelta(seconds=1) <= info.enqueued <= datetime.now(UTC) + timedelta(seconds=1)
    assert info.due - info.enqueued == timedelta(hours=1)
    assert info.due.utcoffset() == timedelta(0)
    assert info.finished is None


@pytest.mark.parametrize("body", RAW)
def test_an_undecodable_job_is_shown_and_breaks_no_list(app: Headrace, driver: WatchedDriver, body: bytes) -> None:
    # B141
    put(driver, "broken", body)
    info = app.jobs.get("broken")
    assert info is not None
    assert info.problem.startswith("cannot decode")
    assert (info.args, info.body) == (None, body)
    page = app.jobs.list("ready")
    assert [job.id for job in page.jobs] == ["broken"]
    assert page.jobs[0].body is None
    assert [problem.id for problem in app.jobs.check_waiting()] == ["broken"]
    assert any("cannot decode" in line for line in app.jobs.why("broken"))


@pytest.mark.parametrize("odd", [b"", b"\xff", b"[]", b'{"attempts":"x"}', b"[" * 100_000])
def test_an_undecodable_trail_is_an_empty_one(odd: bytes) -> None:  # B141
    view = ops.JobView("1", "q", "t", State.READY, 0, 1, 2, 3, 2, trail=odd)
    assert job_info(view).history == ()


@pytest.mark.parametrize("us", [10**30, -(10**30)])
def test_a_moment_beyond_the_calendar_is_shown(us: int) -> None:  # B141
    assert job_info(ops.JobView("1", "q", "t", State.SCHEDULED, 0, 1, 2, us, 2)).due.tzinfo is UTC


def test_listing_goes_page_by_page(app: Headrace, task: Task[..., Any], holder: Holder) -> None:
    for number in range(5):
        task.enqueue(number)
    failed = set(holder.end())
    seen, cursor, pages = [], None, 0
    while pages == 0 or cursor is not None:
        page = app.jobs.list("failed", limit=2, cursor=cursor)
        seen += [job.id for job in page.jobs]
        cursor, pages = page.next, pages + 1
    assert (len(seen), set(seen), pages) == (5, failed, 3)


def test_an_unknown_state_is_refused(app: Headrace) -> None:
    with pytest.raises(ConfigError, match="state is 'lost'"):
        app.jobs.list("lost")


# -- acting


def test_retry_keeps_id_and_reports_what_it_skipped(app: Headrace, task: Task[..., Any], holder: Holder) -> None:
    failed, waiting = task.enqueue(1), None
    holder.end()
    waiting = task.enqueue(2)
    answer = app.jobs.retry([failed.id, waiting.id, "nobody"])
    assert answer.retried == 1
    assert answer.skipped == {waiting.id: "is ready", "nobody": "absent"}
    assert app.jobs.get(failed.id).state is State.READY  # type: ignore[union-attr]
    assert app.jobs.retry(failed.id).retried == 0


def test_retrying_all_makes_no_copies(app: Headrace, task: Task[..., Any], holder: Holder) -> None:  # B135
    for number in range(10):
        task.enqueue(number)
    holder.end()
    first = app.jobs.retry_failed()
    second = app.jobs.retry_failed()
    assert (first.retried, second.retried) == (10, 0)
    assert len(holder.end()) == 10
    assert len(app.jobs.list("failed").jobs) == 10


def test_retry_failed_keeps_to_its_filter_and_tells_its_progress(app: Headrace, holder: Holder) -> None:
    one, two = define(app, name="one"), define(app, name="two", queue="other")
    one.enqueue_many([(number,) for number in range(2_500)])
    two.enqueue(1)
    while holder.end(reason="ValueError"):
        pass
    holder.end(queue="other", reason="KeyError")
    told: list[tuple[int, int]] = []
    assert app.jobs.retry_failed(reason="ValueError", progress=lambda *now: told.append(now)).retried == 2_500
    assert told == [(1_000, 2_500), (2_000, 2_500), (2_500, 2_500)]
    assert [job.task for job in app.jobs.list("failed").jobs] == ["two"]
    assert app.jobs.retry_failed(task="one").retried == 0
    assert app.jobs.retry_failed(queue="other", task="two").retried == 1


def test_forgetting_and_pruning(app: Headrace, task: Task[..., Any], holder: Holder) -> None:
    for number in range(2_100):
        task.enqueue(number)
    while holder.end():
        pass
    first = app.jobs.list("failed", limit=3).jobs
    assert app.jobs.forget([job.id for job in first[:2]] + ["nobody"]) == 2
    assert app.jobs.forget(first[2].id) == 1
    told: list[tuple[int, int]] = []
    assert app.jobs.prune(most=10, progress=lambda *now: told.append(now)) == 2_087
    assert told == [(1_000, 0), (2_000, 0), (2_087, 0)]
    assert app.jobs.prune(older_than="30d") == 0
    assert app.jobs.forget_failed(task="mail") == 10
    assert app.jobs.list("failed").jobs == ()


async def test_in_a_running_loop_the_awaited_twin_is_named(app: Headrace, driver: WatchedDriver) -> None:
    """Like an enqueue: it would block all that the loop serves."""
    calls: dict[str, tuple[Any, ...]] = {"get": ("x",), "list": (), "cancel": ("x",), "retry": ("x",), "queues": ()}
    for name, arguments in calls.items():
        with pytest.raises(WrongColour, match=rf"app\.jobs\.{name}\(\) .* `await app\.ajobs\.{name}\(\.\.\.\)`"):
            getattr(app.jobs, name)(*arguments)
    assert not driver.seen
    assert await app.ajobs.queues() == []


def test_cancel_says_what_became_of_the_job(app: Headrace, task: Task[..., Any], holder: Holder) -> None:
    waiting, running = task.using(queue="a").enqueue(1), task.enqueue(2)
    holder.claim()
    assert [app.jobs.cancel(id) for id in (waiting.id, running.id, waiting.id, "nobody")] == [
        "cancelled",
        "requested",
        "finished",
        "absent",
    ]
    info = app.jobs.get(running.id)
    assert info is not None
    assert info.cancel_requested


def test_a_cancelled_job_can_be_looked_at_for_a_day(app: Headrace, task: Task[..., Any], holder: Holder) -> None:
    """Whoever cancelled it: the call itself, or the worker that gave it back after it had been asked to."""
    waiting, running = task.enqueue(1), task.enqueue(2)
    assert app.jobs.cancel(waiting.id) == "cancelled"
    holder.claim()
    assert app.jobs.cancel(running.id) == "requested"
    holder.driver.run(ops.Leave("w1", ("default",)))
    kept = app.jobs.list("cancelled").jobs
    assert {info.id: (info.state, info.reason) for info in kept} == {
        waiting.id: (State.CANCELLED, "cancelled"),
        running.id: (State.CANCELLED, "cancelled"),
    }
    assert app.jobs.get(waiting.id) is not None
    jobs = holder.driver.inner.model.jobs
    until = {(jobs[info.id].keep_until_us or 0) - (jobs[info.id].finished_us or 0) for info in kept}
    assert until == {ops.CANCELLED_KEEP_US}


# -- will this deploy run what is waiting?


def test_checking_finds_what_this_code_cannot_run(app: Headrace, driver: WatchedDriver, task: Task[..., Any]) -> None:
    task.enqueue(1)
    task.using(run_after=60).enqueue(2)
    put(driver, "gone", b'{"v":1,"id":"gone","task":"old.name","args":{}}', task="old.name")
    put(driver, "changed", b'{"v":1,"id":"changed","task":"mail","args":{"order":1}}')
    put(driver, "newer", b'{"v":2,"id":"newer","task":"mail","args":{}}')
    told: list[tuple[int, int]] = []
    problems = {found.id: found for found in app.jobs.check_waiting(progress=lambda *now: told.append(now))}
    assert set(problems) == {"gone", "changed", "newer"}
    assert "no task is named 'old.name'" in problems["gone"].problem
    assert "aliases=['old.name']" in problems["gone"].problem
    assert "mail" in problems["changed"].problem
    assert "version 2" in problems["newer"].problem
    assert told[-1] == (5, 10_000)
    assert len(app.jobs.check_waiting(2)) <= 2


# -- why is it not running?


def why(app: Headrace, id: str) -> str:
    return "\n".join(app.jobs.why(id))


def test_why_of_an_unknown_job(app: Headrace) -> None:
    assert "knows no job nobody" in why(app, "nobody")


def test_why_of_a_ready_job_without_workers(app: Headrace, task: Task[..., Any]) -> None:
    ids = [task.enqueue(number).id for number in range(3)]
    assert "it is the next" in why(app, ids[0])
    assert "2 jobs before it" in why(app, ids[2])
    assert "No live worker listens to queue 'default': start one" in why(app, ids[0])


def test_why_of_a_ready_job_behind_more_urgent_ones(app: Headrace, task: Task[..., Any], holder: Holder) -> None:
    late = task.using(priority=1).enqueue(1)
    task.using(priority=2).enqueue(2)
    assert "1 job of the same or a higher priority before it" in why(app, late.id)
    holder.claim("elsewhere")
    assert "1 live worker" in why(app, late.id)
    assert "holding 0 jobs" in why(app, late.id)


def test_why_of_a_job_whose_workers_are_dead(app: Headrace, driver: WatchedDriver, task: Task[..., Any]) -> None:
    job = task.enqueue(1)
    driver.run(ops.Claim("w1", 1, ("elsewhere",), 1, 1))
    assert "No worker that could take it is alive" in why(app, job.id)


def test_why_of_scheduled_running_and_failed_jobs(app: Headrace, task: Task[..., Any], holder: Holder) -> None:
    later = task.using(run_after=datetime(2126, 1, 1, tzinfo=UTC)).enqueue(1)
    assert "scheduled until 2126-01-01T00:00:00+00:00, in 36" in why(app, later.id)
    running = task.enqueue(2)
    (claimed,) = holder.claim()
    assert "It is running: held by worker w1 since 20" in why(app, running.id)
    app.jobs.cancel(running.id)
    assert "It was asked to cancel." in why(app, running.id)
    mishap = Mishap("error", 1, 1, "w1", "ValueError", "no such order")
    remembered = trail.encode(Trail(attempts=1, errors=1, crashes=2, history=(mishap,)))
    ended = ops.Outcome(claimed.id, "default", claimed.token, State.FAILED, trail=remembered, reason="crashed")
    holder.driver.run(ops.Settle("w1", (ended,)))
    assert "It has failed: crashed (ValueError: no such order)" in why(app, running.id)
    assert "So far: 1 attempt, 1 error, 2 crashes." in why(app, running.id)


def test_why_of_a_running_job_says_when_it_would_be_rescued(
    app: Headrace, driver: WatchedDriver, task: Task[..., Any], holder: Holder
) -> None:
    job = task.enqueue(1)
    (claimed,) = holder.claim()
    assert re.search(r"lease holds until 20\S+: if it has died, .*rescued .* in (30\.0|29\.\d) s\.", why(app, job.id))
    driver.run(ops.Beat("w1", ("default",), -5_000_000, (ops.Held(job.id, "default", claimed.token),), 99))
    assert "lease ran out 5." in why(app, job.id)
    assert "so it has died or hangs; no live worker is there to rescue the job: start one" in why(app, job.id)
    driver.run(ops.Beat("w2", ("default",), 30_000_000, (), 1))
    assert "another worker rescues the job within a few seconds." in why(app, job.id)


def test_why_of_a_job_that_will_not_start_in_time(app: Headrace, task: Task[..., Any], holder: Holder) -> None:
    past = datetime(2020, 1, 1, tzinfo=UTC)
    expired, late = task.using(expires=past).enqueue(1), task.using(deadline=past).enqueue(2)
    assert "It expires at 2020-01-01T00:00:00+00:00: a worker that takes it ends it as expired" in why(app, expired.id)
    assert "It must not start after 2020-01-01T00:00:00+00:00, its deadline" in why(app, late.id)
    assert "expires" not in why(app, task.using(expires="1h", deadline="2h").enqueue(3).id)
    trail_of_a_run = trail.encode(Trail(attempts=1))
    holder.end(State.SCHEDULED, delay_us=3_600_000_000, trail=trail_of_a_run)
    assert "expires" not in why(app, expired.id)  # it has started once
    assert "its deadline: a worker that takes it fails it" in why(app, late.id)


def test_why_of_a_kept_job(app: Headrace, holder: Holder) -> None:
    job = define(app, name="kept", keep=60).enqueue(1)
    holder.end(State.SUCCEEDED, keep_us=60_000_000)
    assert why(app, job.id) == "It has ended: succeeded."


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda jobs: jobs.list("bogus"), "state is 'bogus': use one of scheduled, ready"),
        (lambda jobs: jobs.list(limit=0), "limit is 0"),
        (lambda jobs: jobs.list(cursor="xx"), "cursor is 'xx': use the one that the page before gave"),
        (lambda jobs: jobs.prune(most=-1), "most is -1"),
        (lambda jobs: jobs.prune(), "prune needs older_than or most"),
    ],
)
@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_a_question_that_cannot_be_asked_is_refused(
    call: Callable[[Jobs], object], words: str, store: str, tmp_path: Path
) -> None:
    app = Headrace("memory://" if store == "memory" else f"sqlite:///{tmp_path}/jobs.db")
    with pytest.raises(ConfigError, match=words):
        call(app.jobs)
    app.close()
