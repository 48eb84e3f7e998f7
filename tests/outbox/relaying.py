"""Run a relay in a test, and sinks that misbehave when told to."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from typing import Any

from headrace import Headrace
from headrace.core.backoff import Fixed
from headrace.outbox.events import Message
from headrace.outbox.port import Answer
from headrace.outbox.relay import Relay

QUICK = {"backoff": Fixed(0.02), "max_attempts": 3}


@asynccontextmanager
async def relaying(app: Headrace, **options: Any) -> AsyncIterator[Relay]:
    """A relay in this loop; stopped at the end."""
    relay = app.relay(**{**QUICK, **options})
    running = asyncio.create_task(relay.run())
    started = asyncio.create_task(relay.started.wait())
    await asyncio.wait([running, started], return_when=asyncio.FIRST_COMPLETED)
    try:
        yield relay
    finally:
        started.cancel()
        relay.stop()
        await asyncio.wait_for(running, 20)


class Collecting:
    """A sink that keeps what it gets; `refuse` says of each message what it fails of, if it does."""

    def __init__(self, refuse: Callable[[Message], Exception | None] = lambda message: None) -> None:
        self.refuse = refuse
        self.messages: list[Message] = []
        self.asked: list[str] = []
        self.closed = 0

    async def publish(self, messages: Sequence[Message]) -> list[Answer]:
        answers: list[Answer] = []
        blocked: dict[tuple[str, str], Exception] = {}
        for message in messages:
            lane = message.event.aggregate_type, message.event.aggregate_id
            if lane not in blocked:
                self.asked.append(message.event.id)
                if (error := self.refuse(message)) is None:
                    self.messages.append(message)
                    answers.append(None)
                    continue
                blocked[lane] = error
            answers.append(blocked[lane])
        return answers

    async def aclose(self) -> None:
        self.closed += 1

    @property
    def payloads(self) -> list[str]:
        return [message.payload.decode() for message in self.messages]


async def fill(app: Headrace, number: int = 30) -> list[str]:
    """Events of three aggregates."""
    return [
        await app.outbox.aadd(
            None, "OrderCreated", payload={"n": n}, aggregate=("Order", f"o-{n % 3}"), headers={"by": "test"}
        )
        for n in range(number)
    ]


def noted(app: Headrace, text: str) -> bool:
    """Whether a row of the SQLite outbox carries `text` as its note."""
    with closing(sqlite3.connect(app.config.url.removeprefix("sqlite:///"))) as connection:
        rows = connection.execute("select note from headrace_outbox").fetchall()
    return any(text in note for (note,) in rows)
