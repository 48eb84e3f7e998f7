"""The relay with sinks of the test's own: order, failures, outages, parking."""

import asyncio
import json
from collections.abc import Callable

import pytest

from headrace import ConfigError, Headrace, StoreUnavailable
from headrace.core.outbox import AddEvents, NewEvent
from headrace.outbox.events import Message
from tests.outbox.relaying import Collecting, relaying
from tests.waiting import await_until

pytestmark = pytest.mark.anyio


async def test_events_reach_the_sink_of_their_route_with_all_they_carry(app: Headrace) -> None:
    orders, rest = Collecting(), Collecting()
    app.outbox.route("Order*", orders)
    app.outbox.route("*", rest)
    id = await app.outbox.aadd(
        None, "OrderCreated", payload={"total": "9.90", "n": 17}, aggregate=("Order", 17), headers={"by": "web"}
    )
    await app.outbox.aadd(None, "Other", payload=[1])
    async with relaying(app):
        await await_until(lambda: len(rest.messages) == 2)
    (message,) = orders.messages
    assert json.loads(message.payload) == {"total": "9.90", "n": 17}
    event = message.event
    assert (event.id, event.type, event.aggregate_type, event.aggregate_id) == (id, "OrderCreated", "Order", "17")
    assert event.headers == {"by": "web"}
    assert event.created.tzinfo is not None
    assert rest.messages[1].event.aggregate_id == rest.messages[1].event.id
    view = app.outbox.view if False else await app.outbox.aview()
    assert (view.pending, view.published) == (0, 2)
    assert orders.closed
    assert rest.closed


async def test_an_event_that_fails_holds_up_its_aggregate_alone_and_is_parked(app: Headrace) -> None:
    broken = {"2"}
    sink = Collecting(lambda message: ValueError("no") if message.payload.decode() in broken else None)
    app.outbox.route("*", sink)
    for n, aggregate in ((1, "a"), (2, "a"), (3, "a"), (4, "b")):
        await app.outbox.aadd(None, "Happened", payload=n, aggregate=("Thing", aggregate))
    async with relaying(app) as relay:
        await await_until(lambda: relay.parked == 1)
        await app.outbox.aadd(None, "Happened", payload=5, aggregate=("Thing", "a"))
        await app.outbox.aadd(None, "Happened", payload=6, aggregate=("Thing", "b"))
        await await_until(lambda: "6" in sink.payloads)
        assert sorted(sink.payloads) == ["1", "4", "6"]
        (parked,) = await app.outbox.aparked()
        assert (parked.attempts, parked.note) == (3, "ValueError: no")
        broken.clear()
        assert await app.outbox.aretry([parked.id]) == 1
        await await_until(lambda: "5" in sink.payloads)
    assert [payload for payload in sink.payloads if payload in "1235"] == ["1", "2", "3", "5"]


async def test_a_sink_that_is_away_costs_no_attempt(app: Headrace) -> None:
    """B117: the broker was down when the transaction committed."""
    away = True

    class Away(Collecting):
        async def publish(self, messages: list[Message]) -> list[Exception | str | None]:  # type: ignore[override]
            self.asked += [message.event.id for message in messages]
            if away:
                raise StoreUnavailable("the broker is down")
            return await super().publish(messages)

    sink, other = Away(), Collecting()
    app.outbox.route("Far", sink)
    app.outbox.route("Near", other)
    await app.outbox.aadd(None, "Far", payload=1)
    await app.outbox.aadd(None, "Near", payload=2)
    async with relaying(app, max_attempts=1) as relay:
        await await_until(lambda: len(sink.asked) >= 3 and other.messages, 20)
        assert relay.parked == 0
        away = False
        await await_until(lambda: sink.messages, 20)
    assert sink.payloads == ["1"]


async def test_an_aggregate_keeps_its_order_across_sinks(app: Headrace) -> None:
    seen: list[int] = []

    class Slow(Collecting):
        async def publish(self, messages: list[Message]) -> list[Exception | str | None]:  # type: ignore[override]
            for _ in range(3):
                await asyncio.sleep(0)
            seen.extend(json.loads(message.payload) for message in messages)
            return [None] * len(messages)

    class Quick(Collecting):
        async def publish(self, messages: list[Message]) -> list[Exception | str | None]:  # type: ignore[override]
            seen.extend(json.loads(message.payload) for message in messages)
            return [None] * len(messages)

    app.outbox.route("A", Slow())
    app.outbox.route("B", Quick())
    for n in range(20):
        await app.outbox.aadd(None, "AB"[n % 2] if n % 5 else "A", payload=n, aggregate=("Thing", "1"))
    async with relaying(app):
        await await_until(lambda: len(seen) == 20)
    assert seen == list(range(20))


async def test_an_event_that_nobody_takes_is_not_lost(app: Headrace, make_app: Callable[..., Headrace]) -> None:
    """The code that takes it may be about to be deployed."""
    app.outbox.route("Dropped")
    await app.outbox.aadd(None, "Unknown", payload=1)
    await app.outbox.aadd(None, "Dropped", payload=2)
    async with relaying(app) as relay:
        await await_until(lambda: relay.parked == 1)
    (parked,) = await app.outbox.aparked()
    assert "no subscriber and no route" in parked.note
    later, sink = make_app(), Collecting()
    later.outbox.route("Unknown", sink)
    assert await later.outbox.aretry() == 1
    async with relaying(later):
        await await_until(lambda: sink.payloads == ["1"])


async def test_rows_that_no_program_of_ours_wrote_are_parked_alone(app: Headrace) -> None:
    sink = Collecting()
    app.outbox.route("*", sink)
    rows = [("1", "{"), ("2", "[1"), ("3", "7")]
    events = [
        NewEvent(f"00000000-0000-0000-0000-00000000000{n}", "Odd", "Thing", n, payload, headers)
        for n, payload in rows
        for headers in ("{}",)
    ]
    await app.driver.arun(AddEvents(tuple(events)))
    async with relaying(app) as relay:
        await await_until(lambda: relay.parked == 2 and sink.payloads == ["7"])
    assert {parked.aggregate_id for parked in await app.outbox.aparked()} == {"1", "2"}


async def test_the_relay_refuses_a_table_for_change_data_capture(make_app: Callable[..., Headrace]) -> None:
    cdc = make_app(outbox_mode="cdc")
    with pytest.raises(ConfigError, match="cdc"):
        cdc.relay()
    await cdc.outbox.aadd(None, "Happened", payload=1)
    plain = make_app()
    with pytest.raises(ConfigError, match="read from the database's log"):
        await plain.relay().run()
    assert (await plain.outbox.aview()).cdc == 1


async def test_a_relay_that_is_idle_is_woken(app: Headrace) -> None:
    sink = Collecting()
    app.outbox.route("*", sink)
    async with relaying(app) as relay:
        for n in range(5):
            await app.outbox.aadd(None, "Happened", payload=n)
            await await_until(lambda n=n: len(sink.messages) == n + 1)
    assert relay.published == 5


async def test_many_relays_share_the_work_and_keep_the_order(make_app: Callable[..., Headrace]) -> None:
    sink = Collecting()
    apps = [make_app() for _ in range(4)]
    for app in apps:
        app.outbox.route("*", sink)
    for n in range(300):
        await apps[0].outbox.aadd(None, "Happened", payload=n, aggregate=("Thing", n % 7))
    async with relaying(apps[0], batch=20), relaying(apps[1], batch=20), relaying(apps[2], batch=20):
        await await_until(lambda: len(sink.messages) >= 300, 30)
    assert sorted(map(int, sink.payloads)) == list(range(300))
    for lane in range(7):
        of_lane = [int(payload) for payload in sink.payloads if int(payload) % 7 == lane]
        assert of_lane == sorted(of_lane)
