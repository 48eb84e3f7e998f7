"""Tasks that are held, as operators see and free them: `app.holds`. The rules are in core/hold.py."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import msgspec

from headrace.core import operations as ops
from headrace.core.hold import REGISTERS, FreeTask, decode, reason_of, register_of
from headrace.core.moments import aware
from headrace.core.parking import LookParked, ParkedFor
from headrace.core.ports import Driver
from headrace.core.registers import Amend
from headrace.inquiries import Inquiry, adrive, drive, registers
from headrace.middleware import Middleware, notice
from headrace.sending import refuse_in_loop
from headrace.signals import TaskFreed

logger = logging.getLogger("headrace")


class HeldTask(msgspec.Struct, frozen=True):
    """A task that workers of one version park, since its jobs killed their workers.

    `version`: "" where the app has none. `jobs`: ids of those that were convicted. `tried`: workers of another version
    have begun to run the others. `queues`: where some are still parked.
    """

    task: str
    version: str
    since: datetime  # on the store's clock, in UTC
    jobs: tuple[str, ...]
    tried: bool
    queues: tuple[str, ...]


class App(Protocol):
    """What is needed of an app."""

    middleware: list[Middleware]

    @property
    def driver(self) -> Driver:
        """The store."""
        ...

    def new_id(self) -> str:
        """An id."""
        ...


class Holds:
    """`app.holds`. Inside a running event loop, await `alook` and `afree` instead."""

    def __init__(self, app: App) -> None:
        self._app = app

    def look(self) -> list[HeldTask]:
        """What is held, by task and version."""
        refuse_in_loop("app.holds.look", "app.holds.alook")
        return drive(_look(), self._app.driver)

    async def alook(self) -> list[HeldTask]:
        """The same, awaited."""
        return await adrive(_look(), self._app.driver)

    def free(self, task: str, *, version: str | None = None, by: str = "") -> tuple[str, ...]:
        """Run a task again: workers give its parked jobs back at a pace, and count convictions anew.

        Args:
            task: its name.
            version: only what is held under this one. None: all.
            by: who does it, for the log and the alerts.

        Returns:
            The versions that it was held under; none where it was not held.
        """
        refuse_in_loop("app.holds.free", "app.holds.afree")
        return self._freed(task, drive(_free(task, version, self._app.new_id()), self._app.driver), by)

    async def afree(self, task: str, *, version: str | None = None, by: str = "") -> tuple[str, ...]:
        """The same, awaited."""
        return self._freed(task, await adrive(_free(task, version, self._app.new_id()), self._app.driver), by)

    def _freed(self, task: str, versions: Sequence[str], by: str) -> tuple[str, ...]:
        for version in versions:
            under = f" under version {version}" if version else ""
            logger.info("task %s, held%s, was freed%s", task, under, f" by {by}" if by else "")
            notice(self._app.middleware, TaskFreed(task, version, by))
        return tuple(versions)


def _look() -> Inquiry[list[HeldTask]]:
    views = yield from registers(REGISTERS)
    holds = [hold for view in views if (hold := decode(view.body)) is not None]
    queues: list[ops.QueueView] = yield ops.Queues()
    parked: list[ParkedFor] = yield LookParked(tuple(view.name for view in queues if view.parked))
    return [
        HeldTask(
            hold.task,
            one.version,
            aware(one.held_us),
            tuple(one.jobs),
            bool(one.tried_by),
            tuple(found.queue for found in parked if found.reason == reason_of(hold.task, one.version)),
        )
        for hold in sorted(holds, key=lambda hold: hold.task)
        for one in hold.versions
        if one.held
    ]


def _free(task: str, version: str | None, by: str) -> Inquiry[Sequence[str]]:
    answers = yield Amend((FreeTask(register=register_of(task), task=task, version=version, by=by),))
    versions: Sequence[str] = answers[0]
    return versions


class HoldApp:
    """Mixed into the app, whose attributes it uses."""

    if TYPE_CHECKING:
        middleware: list[Middleware]

        @property
        def driver(self) -> Driver: ...
        def new_id(self) -> str: ...

    @cached_property
    def holds(self) -> Holds:
        """Tasks that are held since their jobs killed their workers: look at them, free them."""
        return Holds(self)
