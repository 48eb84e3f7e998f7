"""Redis Streams, on a real server."""

import json
from collections.abc import Callable

import pytest
import redis as redis_client

from headrace import ConfigError, Headrace
from headrace.outbox.sinks.redis_streams import RedisStreams
from tests.outbox.relaying import fill, noted, relaying
from tests.servers import RedisServer
from tests.waiting import await_until

pytestmark = pytest.mark.anyio


async def test_events_become_entries_of_a_stream_in_their_order(
    app: Headrace, redis_url: str, unique_name: str
) -> None:
    app.outbox.route("Order*", RedisStreams(redis_url, unique_name + ":{aggregate_type}"))
    ids = await fill(app)
    async with relaying(app) as relay:
        await await_until(lambda: relay.published == len(ids))
    with redis_client.Redis.from_url(redis_url, decode_responses=True) as client:
        entries = [fields for _, fields in client.xrange(f"{unique_name}:Order")]
    assert sorted(entry["id"] for entry in entries) == sorted(ids)
    for lane in range(3):
        assert [json.loads(e["payload"])["n"] for e in entries if e["aggregate_id"] == f"o-{lane}"] == list(
            range(lane, 30, 3)
        )
    assert entries[0]["type"] == "OrderCreated"
    assert json.loads(entries[0]["headers"]) == {"by": "test"}


async def test_a_stream_is_kept_short_where_asked(app: Headrace, redis_url: str, unique_name: str) -> None:
    app.outbox.route("*", RedisStreams(redis_url, unique_name, maxlen=100))
    await fill(app, 400)
    async with relaying(app) as relay:
        await await_until(lambda: relay.published == 400)
    with redis_client.Redis.from_url(redis_url) as client:
        assert 100 <= client.xlen(unique_name) < 400
    with pytest.raises(ConfigError, match="maxlen"):
        RedisStreams(redis_url, maxlen=0)
    with pytest.raises(ConfigError, match="stream"):
        RedisStreams(redis_url, "{nothing}")


async def test_a_key_that_is_no_stream_parks_its_aggregates_alone(
    app: Headrace, redis_url: str, unique_name: str
) -> None:
    app.outbox.route("*", RedisStreams(redis_url, unique_name + "{aggregate_type}"))
    with redis_client.Redis.from_url(redis_url) as client:
        client.set(unique_name + "Bad", "no stream")
    await app.outbox.aadd(None, "X", payload=1, aggregate=("Bad", 1))
    await app.outbox.aadd(None, "X", payload=2, aggregate=("Good", 1))
    async with relaying(app) as relay:
        await await_until(lambda: relay.parked == 1 and relay.published == 1)
    (parked,) = await app.outbox.aparked()
    assert "WRONGTYPE" in parked.note


async def test_a_server_that_is_away_or_full_is_waited_for(
    app: Headrace, redis_server_factory: Callable[[], RedisServer]
) -> None:
    """B117: the destination is down when the transaction commits, and comes up later."""
    server = redis_server_factory()
    app.outbox.route("*", RedisStreams(server.url, "s"))
    await fill(app, 5)
    async with relaying(app, max_attempts=1) as relay:
        await await_until(lambda: noted(app, "no connection"))
        server.start(maxmemory=1, maxmemory_policy="noeviction")
        await await_until(lambda: noted(app, "StoreFull") or noted(app, "nothing was changed"), 30)
        server.stop()
        server.start(appendonly=False)
        await await_until(lambda: relay.published == 5, 40)
        assert relay.parked == 0
    with redis_client.Redis.from_url(server.url) as client:
        assert client.xlen("s") == 5
