"""Events become messages of Kafka topics, by an idempotent producer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.errors import ConfigError, StoreUnavailable
from headrace.outbox.events import Message
from headrace.outbox.port import Answer
from headrace.outbox.sinks.topics import checked_template, topic_of

try:
    from confluent_kafka import KafkaError, KafkaException, Producer
except ImportError:
    raise ConfigError("the client library for Kafka is missing: pip install headrace[kafka]") from None

MESSAGE_TIMEOUT_S = 8.0  # less than two thirds of a relay's lease
_QUEUE_POLL_S = 0.05

# Nobody's fault but the cluster's, or that of a message before this one: it comes again and costs no attempt.
_AWAY = {
    "_ALL_BROKERS_DOWN",
    "_FATAL",
    "_GAPLESS_GUARANTEE",
    "_MSG_TIMED_OUT",
    "_PURGE_INFLIGHT",
    "_PURGE_QUEUE",
    "_RESOLVE",
    "_TIMED_OUT",
    "_TRANSPORT",
}


class Kafka:
    """The key is the aggregate's id, so that its events share a partition and keep their order.

    Headers: `id` (what consumers deduplicate by), `eventType`, `aggregateType`, and the event's own. The value is the
    payload, the timestamp is when the event was written.

    Args:
        servers: host:port, several with commas.
        topic: `{aggregate_type}` and `{event_type}` are filled in.
        message_timeout: how long a message may take, in seconds; keep it below two thirds of the relay's lease.
        config: further settings of librdkafka, such as those of SASL and TLS.

    Raises:
        ConfigError: an argument is out of range, or `config` would give up order or acknowledgements.
    """

    def __init__(
        self,
        servers: str,
        topic: str = "outbox.event.{aggregate_type}",
        *,
        message_timeout: float = MESSAGE_TIMEOUT_S,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        if message_timeout <= 0:
            raise ConfigError(f"message_timeout is {message_timeout!r}: it must be greater than 0")
        fixed = {
            "bootstrap.servers": servers,
            "enable.idempotence": True,  # no message twice and none out of order within one producer
            "enable.gapless.guarantee": True,  # one that fails takes those behind it along
            "message.timeout.ms": round(message_timeout * 1000),
        }
        if clash := sorted(set(fixed) & set(config or {})):
            raise ConfigError(f"config holds {', '.join(clash)}, which this sink sets by itself")
        self._config = {"client.id": "headrace-outbox", **(config or {}), **fixed}
        self._topic = checked_template("topic", topic)
        self._timeout = message_timeout
        self._producer: Producer | None = None

    async def publish(self, messages: Sequence[Message]) -> list[Answer]:
        """Hand all over, and wait for every acknowledgement. In a thread: the library's waits block."""
        return await asyncio.to_thread(self._publish, list(messages))

    def _publish(self, messages: list[Message]) -> list[Answer]:
        if self._producer is None:
            self._producer = Producer(self._config, logger=None)
        producer = self._producer
        batch = _Batch(messages)
        for place, message in enumerate(messages):
            if not batch.is_blocked(place):
                self._hand_over(producer, batch, place, message)
        producer.flush(self._timeout + 1)
        answers = batch.answers()
        if batch.fatal or any(isinstance(answer, StoreUnavailable) for answer in answers):
            # what it may still hold must not go out behind what comes again
            producer.purge()
            producer.flush(1)
            self._producer = None
        return answers

    def _hand_over(self, producer: Producer, batch: _Batch, place: int, message: Message) -> None:
        event = message.event
        headers = {**event.headers, "id": event.id, "eventType": event.type, "aggregateType": event.aggregate_type}
        while True:
            try:
                producer.produce(
                    topic_of(self._topic, event),
                    value=message.payload,
                    key=event.aggregate_id.encode(),
                    headers=[(name, value.encode()) for name, value in headers.items()],
                    timestamp=event.created_us // 1000,
                    on_delivery=batch.callback(place),
                )
            except BufferError:
                producer.poll(_QUEUE_POLL_S)  # the library's queue is full: let some go
                continue
            except KafkaException as error:
                batch.failed(place, error.args[0])
            return

    async def aclose(self) -> None:
        """Give the producer up; nothing of ours is left in it."""
        self._producer = None


class _Batch:
    """What became of the messages of one call."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._lanes = [(message.event.aggregate_type, message.event.aggregate_id) for message in messages]
        self._answers: list[Answer] = [StoreUnavailable("the brokers acknowledged nothing in time")] * len(messages)
        self._blocked: set[tuple[str, str]] = set()
        self.fatal = False

    def is_blocked(self, place: int) -> bool:
        """Whether one before it in its aggregate has failed."""
        return self._lanes[place] in self._blocked

    def callback(self, place: int) -> Any:
        """What the library calls with the acknowledgement."""

        def delivered(error: KafkaError | None, message: object) -> None:
            if error is None:
                self._answers[place] = None
            else:
                self.failed(place, error)

        return delivered

    def failed(self, place: int, error: KafkaError) -> None:
        """One that did not go out."""
        self._blocked.add(self._lanes[place])
        self.fatal = self.fatal or error.fatal()
        text = f"{error.name()}: {error.str()}"
        away = error.fatal() or error.retriable() or error.name() in _AWAY
        self._answers[place] = StoreUnavailable(text) if away else ValueError(text)

    def answers(self) -> list[Answer]:
        """One for each; after one that failed, none of its aggregate counts as published."""
        answers: list[Answer] = []
        blocked: dict[tuple[str, str], Exception] = {}
        for lane, answer in zip(self._lanes, self._answers, strict=True):
            if isinstance(answer, Exception):
                blocked.setdefault(lane, answer)
            answers.append(blocked.get(lane, answer))
        return answers
