"""Alerts of real workers: found, told once, told when over; and sinks that misbehave, which hurt no job."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from headrace import Headrace, signals
from headrace.core import operations as ops
from headrace.middleware import notice
from headrace.observe import (
    Alert,
    Alerts,
    CircuitOpened,
    FailedGrowth,
    OldestWaiting,
    Rule,
    Sink,
    SlackSink,
    TaskHeld,
    WebhookSink,
    WorkerLost,
    desk,
)
from headrace.observe.lines import Line
from headrace.stores.memory import Model
from headrace.worker import Worker
from tests.waiting import await_until, wait_until
from tests.webhooks.receiver import Behaviour, answering, hanging, receiving, resetting

EVERY = 0.05


class Notes(Sink):
    """Keeps what it is sent; fails as often as it is told."""

    def __init__(self, failures: int = 0) -> None:
        self.alerts: list[Alert] = []
        self.tries = 0
        self.failures = failures
        self.gate = threading.Event()
        self.gate.set()

    def send(self, alert: Alert) -> str:
        self.tries += 1
        self.gate.wait(20)
        if self.failures:
            self.failures -= 1
            raise RuntimeError("not now")
        self.alerts.append(alert)
        return "noted"

    @property
    def texts(self) -> list[str]:
        return [alert.line for alert in self.alerts]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "PAUSES_S", (0.01, 0.01))
    monkeypatch.setattr(desk, "STORE_PAUSES_S", (0.01,))


def alerting(app: Headrace, *rules: Rule, sinks: list[Sink], **more: Any) -> Alerts:
    return app.alerts(rules=rules, sinks=sinks, every=EVERY, **more)


@asynccontextmanager
async def working(app: Headrace, **options: Any) -> AsyncIterator[Worker]:
    worker = app.worker(["default"], **options)
    run = asyncio.create_task(worker.run())
    await asyncio.wait_for(worker.started.wait(), 20)
    try:
        yield worker
    finally:
        worker.stop()
        await asyncio.wait_for(run, 20)


def opened(circuit: str = "smtp", after: str = "open") -> signals.CircuitChanged:
    return signals.CircuitChanged(circuit, "closed", after, "60% of 20 calls failed", "w")


@pytest.fixture(params=["memory", "sqlite", "redis"])
def url(request: pytest.FixtureRequest) -> str:
    if request.param == "redis":
        return str(request.getfixturevalue("redis_url"))
    if request.param == "sqlite":
        return f"sqlite:///{request.getfixturevalue('tmp_path')}/jobs.db"
    return "memory://"


async def test_failures_and_waiting_jobs_are_told_and_their_end_too(url: str, unique_name: str) -> None:
    async with Headrace(url, name=unique_name) as app:
        notes = Notes()
        alerting(app, FailedGrowth(count=3, window="1s"), OldestWaiting(age=0.2, queue="other"), sinks=[notes])
        waiting: list[int] = []

        @app.task(retry=1)
        async def bad() -> None:
            raise ValueError

        @app.task(queue="other")
        async def other() -> None:
            waiting.append(1)

        await bad.aenqueue_many([{}] * 4)
        job = await other.aenqueue()
        async with working(app):
            await await_until(lambda: len(notes.alerts) >= 2, what="both alerts")
            await app.ajobs.cancel(job.id)
            await await_until(lambda: len(notes.alerts) >= 4, what="both ends")
    told = {(alert.rule, alert.subject, alert.state) for alert in notes.alerts}
    places = (("failed-growth", ""), ("oldest-waiting other", "other"))
    assert told == {(*place, state) for place in places for state in ("firing", "resolved")}
    assert len(notes.alerts) == 4
    growth = next(alert for alert in notes.alerts if alert.rule == "failed-growth")
    assert 3 <= growth.facts["failed"] <= 4
    assert growth.at is not None
    assert growth.app == unique_name


async def test_of_many_workers_one_tells(url: str, unique_name: str) -> None:
    """Each has its own process, as far as alerts can see: an app, a connection, a desk."""
    model = Model()
    apps = [Headrace(url, name=unique_name) for _ in range(4)]
    notes = [Notes() for _ in apps]
    for app, sink in zip(apps, notes, strict=True):
        if url == "memory://":
            app.driver.model = model  # type: ignore[attr-defined]
        alerting(app, CircuitOpened(), WorkerLost(), sinks=[sink])
    for app in apps:
        for _ in range(3):
            notice(app.middleware, opened())
            notice(app.middleware, signals.WorkerLost("w7", ("a",), "w"))
        notice(app.middleware, opened("psp"))
    assert all([await asyncio.to_thread(app.alerting.flush, 20) for app in apps if app.alerting is not None])
    for app in apps:
        notice(app.middleware, opened(after="closed"))
        await app.aclose()
    told = sorted((alert.rule, alert.subject, alert.state) for sink in notes for alert in sink.alerts)
    assert told == [
        ("circuit-opened", "psp", "firing"),
        ("circuit-opened", "smtp", "firing"),
        ("circuit-opened", "smtp", "resolved"),
        ("worker-lost", "", "firing"),
    ]


async def test_a_worker_that_ends_before_its_first_look_counts_what_has_failed_all_the_same() -> None:
    notes = Notes()
    app = Headrace("memory://")
    alerts = app.alerts(rules=[FailedGrowth(count=2)], sinks=[notes])

    @app.task(retry=1)
    async def fail() -> None:
        raise ValueError

    for _ in range(2):
        await fail.aenqueue()
        await app.worker(burst=True).run()
    assert alerts.flush(20)
    assert [alert.facts["failed"] for alert in notes.alerts] == [2]


async def test_a_lost_worker_is_told_by_the_one_that_found_it() -> None:
    app, notes = Headrace("memory://", lease=1), Notes()
    alerting(app, WorkerLost(), sinks=[notes])

    @app.task
    async def task() -> None: ...

    job = await task.aenqueue()
    await app.driver.arun(ops.Claim("the dead", 1, ("default",), 1, 1))
    async with working(app):
        await await_until(lambda: notes.alerts, 15, "the alert")
    (alert,) = notes.alerts
    assert alert.facts == {"worker": "the dead", "jobs": [job.id]}


async def test_after_the_cooldown_it_is_told_again() -> None:
    app, notes = Headrace("memory://"), Notes()
    alerting(app, OldestWaiting(age=0.01, cooldown=0.2), sinks=[notes])
    app.task(queue="other")(wait_for_ever)
    await app.tasks[f"{__name__}.wait_for_ever"].aenqueue()
    async with working(app):
        await await_until(lambda: len(notes.alerts) >= 3, what="three alerts")
    assert {alert.state for alert in notes.alerts} == {"firing"}


async def wait_for_ever() -> None:
    await asyncio.Event().wait()


async def test_nothing_is_told_of_what_is_over_where_that_is_not_wanted() -> None:
    app, notes = Headrace("memory://"), Notes()
    made = alerting(app, CircuitOpened(), TaskHeld(), sinks=[notes], resolved=False)
    for signal in (
        opened(),
        opened(after="closed"),
        signals.TaskHeld("t", "", 3, "w"),
        signals.TaskFreed("t", "", "w"),
    ):
        notice(app.middleware, signal)
    assert made.flush(20)
    assert [alert.state for alert in notes.alerts] == ["firing", "firing"]


# -- sinks that misbehave


@pytest.mark.parametrize(
    "behaviour", [hanging, resetting(), answering("500 Oh no"), None], ids=["hangs", "resets", "500", "refuses"]
)
async def test_jobs_run_whatever_a_sink_does(behaviour: Behaviour | None, caplog: pytest.LogCaptureFixture) -> None:
    """200 jobs while ten alerts for a broken sink come up; the good sink beside it has them all."""
    with receiving(behaviour or answering()) as receiver:
        app, notes, done = Headrace("memory://"), Notes(), []
        broken = WebhookSink(url=receiver.url(), timeout=0.3)
        if behaviour is None:
            receiver.stop()
        alerting(app, CircuitOpened(), sinks=[broken, notes])

        @app.task
        async def good(number: int) -> None:
            done.append(number)
            if number % 20 == 0:
                notice(app.middleware, opened(f"circuit-{number}"))

        await good.aenqueue_many([{"number": number} for number in range(200)])
        with caplog.at_level(logging.ERROR, "headrace.alerts"):
            async with working(app, burst=True):
                await await_until(lambda: len(done) == 200, what="all jobs")
            await await_until(lambda: len(notes.alerts) == 10, what="the alerts of the good sink")
            await await_until(lambda: caplog.records, 20, "a log line")
        await app.aclose()
    (record,) = caplog.records  # one a minute
    assert "alert sink webhook 127.0.0.1" in record.getMessage()
    assert "did not take the alert" in record.getMessage()


async def test_a_full_queue_drops_alerts_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    app, stuck = Headrace("memory://"), Notes()
    stuck.gate.clear()
    made = alerting(app, CircuitOpened(), sinks=[stuck])
    with caplog.at_level(logging.ERROR, "headrace.alerts"):
        for number in range(desk.SINK_ROOM + 50):
            notice(app.middleware, opened(f"circuit-{number}"))
        await await_until(lambda: caplog.records, what="a log line")
    assert caplog.records[0].getMessage() == "alert sink Notes is behind with 100 alerts: 1 were dropped"
    assert not made.flush(0.01)
    await app.aclose()  # it does not wait for the sink, which is stuck until the next line
    stuck.gate.set()
    await await_until(lambda: len(stuck.alerts) > desk.SINK_ROOM, what="those that were kept")
    assert len(caplog.records) == 1


def test_a_sink_that_recovers_gets_its_alert() -> None:
    app, notes = Headrace("memory://"), Notes(failures=2)
    made = alerting(app, CircuitOpened(), sinks=[notes])
    notice(app.middleware, opened())
    assert made.flush(20)
    assert (notes.tries, len(notes.alerts)) == (3, 1)


def test_what_a_rule_cannot_make_better_is_tried_once() -> None:
    with receiving(answering("404 Not Found")) as receiver:
        app = Headrace("memory://")
        made = alerting(app, CircuitOpened(), sinks=[SlackSink(url=receiver.url())])
        notice(app.middleware, opened())
        assert made.flush(20)
        assert len(receiver.requests) == 1


def test_an_alert_goes_out_where_the_store_is_away(caplog: pytest.LogCaptureFixture) -> None:
    """Better twice than never; this process at least keeps to its cool-down."""
    app, notes = Headrace("redis://127.0.0.1:1/0"), Notes()
    made = alerting(app, CircuitOpened(), sinks=[notes])
    for _ in range(3):
        notice(app.middleware, opened())
    assert made.flush(30)
    (alert,) = notes.alerts
    assert alert.at is None
    assert "the store does not say who sends circuit-opened" in caplog.text
    app.close()


def test_a_line_works_off_what_comes_after_a_pause_or_an_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("headrace.observe.lines.IDLE_S", 0.01)
    handled: list[int] = []

    def handle(item: int) -> None:
        if item == 1:
            raise ValueError(item)
        if item == 2:
            raise SystemExit
        handled.append(item)

    line: Line[int] = Line("line", 3, handle)
    for item in (0, 1, 2, 3):
        assert line.put(item)
        assert line.drained(10)
        wait_until(lambda: not any(each.name == "headrace line" for each in threading.enumerate()))
    assert handled == [0, 3]
    assert "line: an alert was lost" in caplog.text


@pytest.fixture(autouse=True)
def no_thread_is_left_behind() -> Iterator[None]:
    yield
    for thread in threading.enumerate():
        assert thread.daemon or thread is threading.main_thread() or "headrace" not in thread.name


def test_an_alert_is_one_line_of_json() -> None:
    notes, app = Notes(), Headrace("memory://", name="shop")
    made = alerting(app, CircuitOpened(), sinks=[notes])
    notice(app.middleware, opened())
    assert made.flush(20)
    (alert,) = notes.alerts
    parsed = msgspec.json.decode(msgspec.json.encode(alert))
    assert list(parsed) == ["app", "rule", "subject", "state", "text", "facts", "at", "by"]
    assert parsed["facts"]["why"] == "60% of 20 calls failed"


def test_trying_the_sinks_says_what_each_answered() -> None:
    good, bad = Notes(), Notes(failures=1)
    made = alerting(Headrace("memory://"), CircuitOpened(), sinks=[good, bad])
    said: list[tuple[str, bool]] = []
    note: Callable[[Sink, str, bool], None] = lambda sink, text, taken: said.append((text, taken))  # noqa: E731
    assert not made.test(note)
    assert said == [("noted", True), ("not now", False)]
    assert good.alerts[0].state == "test"
