"""What an app can do with events: the part of `Headrace` that is about the outbox and the inbox."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

import msgspec

from headrace.config import Config
from headrace.core.operations import Enqueued, NewJob
from headrace.core.ports import Driver
from headrace.errors import ConfigError
from headrace.task import Task

if TYPE_CHECKING:
    from headrace.outbox.book import Outbox
    from headrace.outbox.carrying import Carrier
    from headrace.outbox.inbox import Inbox
    from headrace.outbox.relay import Relay

_NO_OUTBOX = {"memory", "redis", "rediss", "unix"}

P = ParamSpec("P")
R = TypeVar("R")


class EventApp:
    """Mixed into the app, whose attributes it uses."""

    if TYPE_CHECKING:
        config: Config
        rng: random.Random

        @property
        def driver(self) -> Driver: ...
        def _make_driver(self, config: Config) -> Driver: ...
        def _before_use(self) -> None: ...
        def new_id(self) -> str: ...

        task: Any

        def send(self, jobs: Sequence[NewJob]) -> list[Enqueued]: ...
        async def asend(self, jobs: Sequence[NewJob]) -> list[Enqueued]: ...

    @property
    def outbox_mode(self) -> str:
        """`relay` or `cdc`."""
        return self.config.outbox_mode

    @property
    def outbox_driver(self) -> Driver:
        """The database with the outbox: that of the jobs, unless `outbox=` names another.

        Raises:
            ConfigError: the jobs live where no transaction of a caller's reaches, and `outbox=` names no database.
        """
        self._before_use()
        if self.config.outbox is not None:
            return self._outbox_driver
        scheme = self.config.url.partition("://")[0]
        if scheme in _NO_OUTBOX:
            raise ConfigError(
                f"the jobs are in a store of {scheme}://, which no transaction of your database reaches: name the "
                'database that is to hold the outbox, as in Headrace("redis://...", outbox="postgresql://...")'
                " (HEADRACE_OUTBOX in Flask, OUTBOX in Django's HEADRACE)"
            )
        return self.driver

    @property
    def has_outbox_elsewhere(self) -> bool:
        """Whether the outbox is in another database than the jobs."""
        return self.config.outbox is not None

    def send_in(self, transaction: Any, jobs: Sequence[NewJob]) -> tuple[list[Enqueued], bool]:
        """Store jobs in a transaction of the caller's; and whether they are pending in an outbox."""
        return self._carrier.send(transaction, jobs)

    async def asend_in(self, transaction: Any, jobs: Sequence[NewJob]) -> tuple[list[Enqueued], bool]:
        """The same, awaited."""
        return await self._carrier.asend(transaction, jobs)

    def send_after(self, transaction: Any, jobs: Sequence[NewJob]) -> None:
        """Store jobs once a transaction of a synchronous caller's has been committed."""
        from headrace.deferred import defer  # noqa: PLC0415 - most jobs do not wait

        defer(self, transaction, jobs)

    def asend_after(self, transaction: Any, jobs: Sequence[NewJob]) -> None:
        """The same for a coroutine's transaction."""
        from headrace.deferred import adefer  # noqa: PLC0415

        adefer(self, transaction, jobs)

    @cached_property
    def _carrier(self) -> Carrier:
        from headrace.outbox.carrying import Carrier  # noqa: PLC0415 - most jobs are stored by themselves

        return Carrier(self)

    @cached_property
    def _outbox_driver(self) -> Driver:
        config = self.config
        return self._make_driver(msgspec.structs.replace(config, url=config.outbox or config.url, outbox=None))

    def _close_outbox(self) -> None:
        if "_outbox_driver" in self.__dict__:
            self._outbox_driver.close()

    async def _aclose_outbox(self) -> None:
        if "_outbox_driver" in self.__dict__:
            await self._outbox_driver.aclose()

    @cached_property
    def outbox(self) -> Outbox:
        """Events that commit with your data."""
        from headrace.outbox.book import Outbox  # noqa: PLC0415 - not every app has events

        return Outbox(self)

    def on(self, *event_types: str, **options: Any) -> OnEvent:
        """Subscribe a function or a task to events: `@app.on("OrderCreated")`. `options` are those of `task`.

        It takes at most two arguments: the whole payload, checked against the annotation, and one annotated with
        `Event`, for the event's id, type, aggregate and headers. Each event makes one job of it; the job's id follows
        from the event's id and the task's name, so an event that is published again makes no second one.

        Raises:
            ConfigError: no type is named, or the function cannot be called like that.
        """
        if not event_types or not all(type(name) is str and name for name in event_types):
            raise ConfigError(f'on{event_types!r}: name the types of events, as in @app.on("OrderCreated")')
        return OnEvent(self, event_types, options)

    def relay(self, *, id: str | None = None, **options: Any) -> Relay:
        """A relay of this app's events; `await relay.run()` starts it, and many may run at once.

        Options: batch (500), lease (15 s), max_attempts (10), backoff, retention (7 days in seconds), inbox_retention
        (30 days), once (False). See `RelayOptions`.

        Raises:
            ConfigError: an option is out of range, or the outbox is for change data capture.
        """
        import os  # noqa: PLC0415 - relays are few
        import secrets  # noqa: PLC0415
        import socket  # noqa: PLC0415

        relay_id = id or f"relay-{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        return self.outbox.relay(id=relay_id, **options)

    def inbox(self, session: Any, message_id: str, *, consumer: str = "default") -> Inbox:
        """Note a message as received in the transaction that `session` is in.

            async with app.inbox(session, message_id) as first:
                if first:
                    ...  # what the message is to change, in the same transaction

        `first` is False where `consumer` has received it before. Commit afterwards: the note commits with your changes
        or not at all. While another transaction is receiving the same message, this waits for its end. Messages are
        remembered for 30 days, see `relay`.

        Raises:
            ConfigError: an id or a name is no text of 1 to 255 characters.
        """
        from headrace.outbox.inbox import Inbox, checked_receive  # noqa: PLC0415 - not every app has one
        from headrace.outbox.lending import arun_in, run_in  # noqa: PLC0415

        driver = self.outbox_driver
        return Inbox(
            checked_receive(consumer, message_id, self.new_id()),
            lambda operation: run_in(session, driver, operation),
            lambda operation: arun_in(session, driver, operation),
        )


class Subscribes(Protocol):
    """What the decorator needs of the app."""

    task: Any

    @property
    def outbox(self) -> Outbox: ...


class OnEvent:
    """The decorator that `on` returns."""

    def __init__(self, app: Subscribes, event_types: tuple[str, ...], options: dict[str, Any]) -> None:
        self._app = app
        self._event_types = event_types
        self._options = options

    def __call__(self, function: Callable[P, R] | Task[P, R]) -> Task[P, R]:
        """Make `function` a task, unless it is one, and subscribe it."""
        if isinstance(function, Task):
            if self._options:
                raise ConfigError(f"{function.name} is a task already: give {', '.join(self._options)} to @app.task")
            task: Task[P, R] = function
        else:
            task = self._app.task(**self._options)(function)
        self._app.outbox.subscribe(self._event_types, task)
        return task
