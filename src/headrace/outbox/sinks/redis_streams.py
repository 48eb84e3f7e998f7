"""Events become entries of Redis or Valkey streams."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from headrace.drivers.redis.address import parse
from headrace.drivers.redis.exchange import Command, Scripts, error_in
from headrace.drivers.redis.pipe import Pipe
from headrace.errors import ConfigError, StoreError, StoreFull, StoreUnavailable
from headrace.outbox.events import Message
from headrace.outbox.port import Answer
from headrace.outbox.sinks.topics import checked_template, topic_of


class RedisStreams:
    """Entries have the fields id, type, aggregate_type, aggregate_id, created_us, headers (JSON) and payload (JSON).

    Args:
        url: as `Headrace` takes it: redis://, rediss:// or unix://.
        stream: the key; `{aggregate_type}` and `{event_type}` are filled in. With the default every aggregate's events
            are in one stream, so their order can be seen.
        maxlen: about how many entries a stream keeps; None keeps all.

    Raises:
        ConfigError: an argument is out of range.
    """

    def __init__(self, url: str, stream: str = "outbox:{aggregate_type}", *, maxlen: int | None = None) -> None:
        if maxlen is not None and (type(maxlen) is not int or maxlen < 1):
            raise ConfigError(f"maxlen is {maxlen!r}: it must be a whole number of at least 1, or None")
        self._address = parse(url)
        self._stream = checked_template("stream", stream)
        self._trim = ("MAXLEN", "~", str(maxlen)) if maxlen else ()
        self._pipe: Pipe | None = None

    async def publish(self, messages: Sequence[Message]) -> list[Answer]:
        """All in one transaction: a server that has no room takes none of them."""
        pipe = await self._connected()
        commands: list[Command] = [("MULTI",), *map(self._command, messages), ("EXEC",)]
        replies: list[Any] = await asyncio.gather(*[pipe.call(command) for command in commands], return_exceptions=True)
        errors = [reply for reply in replies if isinstance(reply, BaseException)]
        for kind in (StoreUnavailable, StoreFull, StoreError):
            if found := next((error for error in errors if isinstance(error, kind)), None):
                raise found
        if errors:
            raise errors[0]
        return _answers(messages, replies[-1])

    async def _connected(self) -> Pipe:
        if self._pipe is None or not self._pipe.open:
            self._pipe = await Pipe.connect(self._address, Scripts({}))
        return self._pipe

    def _command(self, message: Message) -> Command:
        event = message.event
        fields = {
            "id": event.id,
            "type": event.type,
            "aggregate_type": event.aggregate_type,
            "aggregate_id": event.aggregate_id,
            "created_us": str(event.created_us),
            "headers": msgspec.json.encode(event.headers),
            "payload": message.payload,
        }
        flat = [part for pair in fields.items() for part in pair]
        return ("XADD", topic_of(self._stream, event), *self._trim, "*", *flat)

    async def aclose(self) -> None:
        """Close the connection."""
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            await pipe.aclose()


def _answers(messages: Sequence[Message], replies: Sequence[Any]) -> list[Answer]:
    """A key that is no stream refuses its entries alone."""
    answers: list[Answer] = []
    blocked: dict[tuple[str, str], Exception] = {}
    for message, reply in zip(messages, replies, strict=True):
        lane = message.event.aggregate_type, message.event.aggregate_id
        if (refusal := error_in(reply)) is not None:
            blocked.setdefault(lane, refusal)
        answers.append(blocked.get(lane))
    return answers
