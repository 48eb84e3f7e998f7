"""`app.outbox`: write events, say who gets them, look at what waits."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

from headrace.core.operations import Enqueued, NewJob, Operation
from headrace.core.outbox import (
    AddEvents,
    OutboxView,
    ParkedEvent,
    ParkedEvents,
    PrunedRows,
    PruneEvents,
    RetryEvents,
    SkipEvents,
    ViewOutbox,
)
from headrace.core.ports import Driver
from headrace.errors import ConfigError
from headrace.options import duration_us
from headrace.outbox.events import checked_event_id, new_event
from headrace.outbox.lending import arun_in, run_in
from headrace.outbox.port import Sink
from headrace.outbox.relay import CDC, Relay, RelayOptions
from headrace.outbox.routes import Routes
from headrace.outbox.sinks.jobs import JobsSink
from headrace.outbox.subscribers import Subscriber
from headrace.sending import refuse_in_loop
from headrace.task import Task

MOST_PARKED = 100
PRUNE_STEP = 1_000


class Host(Protocol):
    """What the outbox needs of its app."""

    @property
    def outbox_driver(self) -> Driver:
        """The database with the outbox."""
        ...

    @property
    def outbox_mode(self) -> str:
        """`relay` or `cdc`."""
        ...

    @property
    def rng(self) -> random.Random:
        """Jitter."""
        ...

    def new_id(self) -> str:
        """A UUID that grows."""
        ...

    async def asend(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Store jobs, all or none."""
        ...


class Outbox:
    """Events that commit with the caller's data, or not at all."""

    def __init__(self, app: Host) -> None:
        self._app = app
        self._subscribers: dict[str, list[Subscriber]] = {}
        self.routes = Routes(JobsSink(app, self._subscribers))

    # -- producers

    def add(
        self,
        session: Any,
        event_type: str,
        *,
        payload: Any,
        aggregate: tuple[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        id: str | UUID | None = None,
    ) -> str:
        """Write an event in the transaction that `session` is in; returns the event's id.

        Args:
            session: what `task.using(transaction=...)` takes; None writes in a transaction of its own.
            event_type: such as "OrderCreated"; at most 255 characters.
            payload: what JSON can express, or dataclasses, msgspec and pydantic models; at most 980,000 bytes, headers
                counted twice.
            aggregate: type and id of what the event is about: events of one aggregate are published in their order.
            headers: texts by name, handed on with the event.
            id: a UUID of your own; an event with an id that is there already is passed over.

        Raises:
            ConfigError, InvalidArguments, PayloadTooLarge: the event cannot be written like that.
            WrongColour: called inside a running event loop.
        """
        refuse_in_loop("outbox.add", "outbox.aadd")
        operation, event_id = self._adding(event_type, payload, aggregate, headers, id)
        run_in(session, self._app.outbox_driver, operation)
        return event_id

    async def aadd(
        self,
        session: Any,
        event_type: str,
        *,
        payload: Any,
        aggregate: tuple[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        id: str | UUID | None = None,
    ) -> str:
        """The same, awaited."""
        operation, event_id = self._adding(event_type, payload, aggregate, headers, id)
        await arun_in(session, self._app.outbox_driver, operation)
        return event_id

    def _adding(
        self,
        event_type: str,
        payload: Any,
        aggregate: tuple[str, Any] | None,
        headers: Mapping[str, str] | None,
        id: str | UUID | None,
    ) -> tuple[Operation[None], str]:
        event_id = self._app.new_id() if id is None else checked_event_id(id)
        event = new_event(event_type, event_id, payload=payload, aggregate=aggregate, headers=headers)
        return AddEvents((event,), cdc=self._app.outbox_mode == "cdc"), event_id

    # -- who gets them

    def subscribe(self, event_types: Iterable[str], task: Task[..., Any]) -> None:
        """Have each event of these types make a job of `task`.

        Raises:
            ConfigError: the task cannot be called by an event.
        """
        subscriber = Subscriber.of(task)
        for event_type in event_types:
            others = self._subscribers.setdefault(event_type, [])
            others[:] = [other for other in others if other.task.name != task.name] + [subscriber]
        self.routes.forget()

    @property
    def subscribers(self) -> Mapping[str, Sequence[str]]:
        """Names of tasks by type of event."""
        return {kind: [each.task.name for each in found] for kind, found in self._subscribers.items()}

    def route(self, pattern: str, *sinks: Sink) -> None:
        """Send events whose type matches `pattern` ("OrderCreated", "Order*", "*") to `sinks`, besides all subscribers.

        Without a sink, such events are taken and dropped. One that has no subscriber and no route fails, and is parked
        in the end: it may have been written for code that is about to be deployed.

        Raises:
            ConfigError: a sink is none.
        """
        self.routes.add(pattern, sinks)

    def relay(self, *, id: str, **options: Any) -> Relay:
        """See `Headrace.relay`."""
        if self._app.outbox_mode == "cdc":
            raise ConfigError(CDC)
        return Relay(self._app.outbox_driver, self.routes, RelayOptions(**options), self._app.rng, id)

    # -- operators

    def view(self) -> OutboxView:
        """Counts, the oldest pending event, and the lag."""
        return self._app.outbox_driver.run(ViewOutbox())

    async def aview(self) -> OutboxView:
        """The same, awaited."""
        return await self._app.outbox_driver.arun(ViewOutbox())

    def parked(self, limit: int = MOST_PARKED) -> list[ParkedEvent]:
        """The first events that were given up, each of which holds its aggregate up."""
        return self._app.outbox_driver.run(ParkedEvents(limit))

    async def aparked(self, limit: int = MOST_PARKED) -> list[ParkedEvent]:
        """The same, awaited."""
        return await self._app.outbox_driver.arun(ParkedEvents(limit))

    def retry(self, ids: Iterable[str] | None = None) -> int:
        """Make parked events pending again: these, or all. Returns how many there were."""
        return self._app.outbox_driver.run(RetryEvents(None if ids is None else _ids(ids)))

    async def aretry(self, ids: Iterable[str] | None = None) -> int:
        """The same, awaited."""
        return await self._app.outbox_driver.arun(RetryEvents(None if ids is None else _ids(ids)))

    def skip(self, ids: Iterable[str]) -> int:
        """Give parked events up for good, so that their aggregates go on. Returns how many there were."""
        return self._app.outbox_driver.run(SkipEvents(_ids(ids)))

    async def askip(self, ids: Iterable[str]) -> int:
        """The same, awaited."""
        return await self._app.outbox_driver.arun(SkipEvents(_ids(ids)))

    def prune(self, older_than: Any, progress: Callable[[int], None] = lambda count: None) -> int:
        """Delete what was published longer ago; in CDC mode what was written longer ago. Returns how many rows."""
        prune = PruneEvents(duration_us("older_than", older_than), PRUNE_STEP, cdc=self._app.outbox_mode == "cdc")
        total, step = 0, PrunedRows(0, more=True)
        while step.more:
            step = self._app.outbox_driver.run(prune)
            total += step.count
            progress(total)
        return total


def _ids(ids: Iterable[str]) -> tuple[str, ...]:
    """Each as it was given, and as a UUID is usually written: what another program has inserted may be neither."""
    given = (ids,) if isinstance(ids, str) else tuple(ids)
    return tuple(dict.fromkeys((*given, *(usual for id in given if (usual := _usual(id)) is not None))))


def _usual(id: str) -> str | None:
    try:
        return checked_event_id(id)
    except ConfigError:
        return None
