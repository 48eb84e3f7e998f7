"""Events become jobs of their subscribers, once each."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from uuid import uuid4

import pytest

from headrace import ConfigError, Headrace, InvalidArguments, PayloadTooLarge, State, WrongColour, current_job
from headrace.core.jobrows import event_of
from headrace.core.operations import Enqueue, NewJob
from headrace.core.outbox import AddEvents
from headrace.outbox import Event
from tests.outbox.relaying import Collecting, relaying
from tests.waiting import await_until

pytestmark = pytest.mark.anyio


@dataclass
class OrderCreated:
    order_id: int
    total: Decimal


async def worked(app: Headrace) -> None:
    """Run what waits."""
    await asyncio.wait_for(app.worker(burst=True).run(), 30)


async def test_each_subscriber_gets_one_job_of_an_event_with_a_typed_payload(app: Headrace) -> None:
    seen: list[object] = []

    @app.on("OrderCreated", queue="stock")
    async def reserve(order: OrderCreated) -> None:
        seen.append(("reserve", order, current_job().headers["event_id"], current_job().headers["trace"]))

    @app.on("OrderCreated", "OrderChanged")
    def mail(event: Event, order: OrderCreated | None = None) -> None:
        seen.append(("mail", order, event.id, event.type, event.aggregate_id))

    @app.on("OrderCreated")
    async def count() -> None:
        seen.append(("count",))

    order = OrderCreated(17, Decimal("9.90"))
    id = await app.outbox.aadd(None, "OrderCreated", aggregate=("Order", 17), payload=order, headers={"trace": "t"})
    async with relaying(app, once=True):
        await await_until(lambda: _published(app, 1))
    await worked(app)
    assert sorted(seen, key=str) == sorted(
        [("reserve", order, id, "t"), ("mail", order, id, "OrderCreated", "17"), ("count",)], key=str
    )
    assert set(app.outbox.subscribers["OrderCreated"]) == {reserve.name, mail.name, count.name}


async def _published(app: Headrace, number: int) -> bool:
    return (await app.outbox.aview()).published >= number


async def test_an_event_that_is_published_again_makes_no_second_job(app: Headrace) -> None:
    runs: list[int] = []

    @app.on("Happened")
    async def handle(n: int) -> None:
        runs.append(n)

    id = await app.outbox.aadd(None, "Happened", payload=1)
    async with relaying(app, once=True):
        await await_until(lambda: _published(app, 1))
    await worked(app)
    # a relay that died between publishing and saying so: the row is pending again, and published again
    await _drop(app)
    await app.outbox.aadd(None, "Happened", payload=1, id=id)
    async with relaying(app, once=True):
        await await_until(lambda: _published(app, 1))
    await worked(app)
    assert runs == [1]


async def _drop(app: Headrace) -> None:
    assert await asyncio.to_thread(app.outbox.prune, 0) == 1


async def test_a_payload_that_does_not_fit_ends_among_the_failed_jobs(app: Headrace) -> None:
    @app.on("Happened")
    async def handle(order: OrderCreated) -> None:
        raise AssertionError(order)

    await app.outbox.aadd(None, "Happened", payload={"order_id": "no number"})
    async with relaying(app, once=True):
        await await_until(lambda: _published(app, 1))
    await worked(app)
    (failed,) = (await app.ajobs.list(State.FAILED)).jobs
    assert failed.reason == "bad arguments"


async def test_subscribers_and_routes_both_get_an_event(app: Headrace) -> None:
    sink, runs = Collecting(), []
    app.outbox.route("*", sink)

    @app.on("Happened")
    @app.task(unique="n-{n}")
    async def handle(n: int) -> None:
        runs.append(n)

    await app.outbox.aadd(None, "Happened", payload=5)
    await app.outbox.aadd(None, "Happened", payload=5)
    async with relaying(app, once=True):
        await await_until(lambda: _published(app, 2))
    await worked(app)
    assert sink.payloads == ["5", "5"]
    assert runs == [5]


def test_functions_that_no_event_can_call_are_refused(app: Headrace) -> None:
    with pytest.raises(ConfigError, match="one parameter for the whole payload"):

        @app.on("Happened")
        async def two(order_id: int, total: int) -> None: ...

    with pytest.raises(ConfigError, match="name the types"):
        app.on()

    @app.task
    async def fine(n: int) -> None: ...

    with pytest.raises(ConfigError, match="is a task already"):
        app.on("Happened", queue="x")(fine)


def test_events_that_cannot_be_written_are_refused(app: Headrace) -> None:
    for bad in (float("nan"), 2**70, {1, object()}, object()):
        with pytest.raises(InvalidArguments):
            app.outbox.add(None, "Happened", payload=bad)
    deep: list[object] = []
    for _ in range(70):
        deep = [deep]
    for large in ("x" * 1_000_001, deep):
        with pytest.raises(PayloadTooLarge):
            app.outbox.add(None, "Happened", payload=large)
    for options in (
        {"id": "17"},
        {"aggregate": "Order"},
        {"aggregate": ("Order", "")},
        {"aggregate": ("", 1)},
        {"headers": {"a": 1}},
    ):
        with pytest.raises(ConfigError):
            app.outbox.add(None, "Happened", payload=1, **options)  # type: ignore[arg-type]
    for name in ("", "x" * 256, "a\nb", "headrace.job"):
        with pytest.raises(ConfigError):
            app.outbox.add(None, name, payload=1)
    assert app.outbox.view().pending == 0


async def test_add_refuses_to_block_a_loop(app: Headrace) -> None:
    with pytest.raises(WrongColour, match="aadd"):
        app.outbox.add(None, "Happened", payload=1)


def test_stores_that_no_transaction_reaches_need_a_database_named(make_app: Callable[..., Headrace]) -> None:
    with pytest.raises(ConfigError, match="name the database"):
        make_app("memory://").outbox.add(None, "Happened", payload=1)
    with pytest.raises(ConfigError, match="outbox_mode"):
        make_app(outbox_mode="both")


async def test_jobs_of_another_store_go_through_the_outbox(make_app: Callable[..., Headrace], sqlite_url: str) -> None:
    app = make_app("memory://", outbox=sqlite_url)
    runs: list[tuple[int, str]] = []

    @app.task(unique="n-{n}")
    async def handle(n: int) -> None:
        runs.append((n, current_job().id))

    jobs = [handle.call(n).job(str(uuid4())) for n in (1, 2, 1)]
    later = NewJob(str(uuid4()), "default", handle.name, jobs[0].body, delay_us=3600 * 1_000_000)
    rows = tuple(event_of(job, job.id) for job in (*jobs, later))
    await app.outbox_driver.arun(AddEvents(rows))
    async with relaying(app, once=True):
        await await_until(lambda: _published(app, 4))
    waiting = (await app.ajobs.list(State.SCHEDULED)).jobs
    assert [job.id for job in waiting] == [later.id]
    await worked(app)
    assert sorted(runs) == sorted([(1, jobs[0].id), (2, jobs[1].id)])
    (again,) = await app.driver.arun(Enqueue((jobs[1],)))
    assert again.status == "exists"


async def test_an_envelope_comes_through_the_outbox_unchanged(app: Headrace) -> None:
    body = '{"v":1,"id":"a","task":"t","args":{"n":1.10,"ä":"\\u0000"},"unknown":[1,  2]}'.encode()
    job = NewJob("a", "default", "t", body, unique="k", unique_us=5, priority=3)
    await app.driver.arun(AddEvents((event_of(job, str(uuid4())),)))
    async with relaying(app, once=True):
        await await_until(lambda: _published(app, 1))
    info = await app.ajobs.get("a")
    assert info is not None
    assert info.priority == 3
    assert json.loads(body)["unknown"] == [1, 2]
    from headrace.core.operations import Get

    view = await app.driver.arun(Get("a"))
    assert view is not None
    assert view.body == body
    assert view.unique == "k"
