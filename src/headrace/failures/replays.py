"""`app.jobs.replays`: many failed jobs made ready again by an operation that is noted in the store.

It can be paced, tried with a few jobs first, looked at and cancelled from elsewhere, and resumed by anybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from headrace.core.failures import FailedFilter
from headrace.core.ids import MOST
from headrace.core.replays import IDS, REGISTERS, LeaveReplay, ReplayRun
from headrace.drivers.system import this_process
from headrace.errors import ConfigError, HeadraceError
from headrace.failures.replaying import Driving, ask, cancel, look, look_all, start
from headrace.inquiries import App, Progress, adrive, drive
from headrace.sending import refuse_in_loop

DIGITS = 12  # of the id of a replay


def _new(
    app: App,
    where: FailedFilter | None,
    ids: Iterable[str] | None,
    *,
    canary: int,
    rate: float | None,
    by: str,
) -> ReplayRun:
    """What is to be started.

    Raises:
        ConfigError: an option is out of range, or both ids and a filter are given, or neither.
    """
    if (where is None) == (ids is None):
        raise ConfigError("give where= or ids=, one of them: which failed jobs are meant? FailedFilter() means all")
    if isinstance(ids, str):
        raise ConfigError(f"ids is {ids!r:.100}: give a list of ids, such as ids=[{ids!r:.100}]")
    named = None if ids is None else tuple(dict.fromkeys(ids))
    if named is not None and not 1 <= len(named) <= IDS:
        raise ConfigError(f"ids holds {len(named):,} ids: one replay takes 1 to {IDS:,}; use a filter for more")
    if named is not None and (odd := [id for id in named if type(id) is not str or not 1 <= len(id) <= MOST]):
        raise ConfigError(f"ids holds {odd[0]!r}, which is no id of a job")
    if type(canary) is not int or not 0 <= canary <= IDS:
        raise ConfigError(f"canary is {canary!r}: use a whole number from 0 to {IDS:,}")
    if rate is not None and not 0 < rate < 1e9:
        raise ConfigError(f"rate is {rate!r}: it is a number of jobs per second, greater than 0")
    run_id = app.new_id().replace("-", "")[-DIGITS:]
    meant = FailedFilter() if where is None else where
    return ReplayRun(id=run_id, where=meant, ids=named, by=by, rate=rate, canary=canary)


def _me(app: App) -> str:
    """Who drives: host and process, for people, and what tells one call from another."""
    return f"{this_process()}-{app.new_id()[-8:]}"


class Replays:
    """`app.jobs.replays`."""

    def __init__(self, app: App) -> None:
        self._app = app

    def start(
        self,
        where: FailedFilter | None = None,
        *,
        ids: Iterable[str] | None = None,
        canary: int = 0,
        rate: float | None = None,
        by: str = "",
    ) -> ReplayRun:
        """Note in the store that failed jobs are to be replayed; `drive` does it.

        Meant are those that have failed by now, and of these each is made ready once, whoever else replays them.

        Args:
            where: which; `FailedFilter()` means all.
            ids: these, in place of `where`: at most 1,000.
            canary: so many, the newest of each queue in turn, go first. The others follow when all of these have ended
                well; when one fails an attempt, the replay is stopped.
            rate: at most so many jobs per second; None: as fast as the store takes them.
            by: who does it.

        Raises:
            ConfigError: an option is out of range, or both ids and a filter are given, or neither.
        """
        run = _new(self._app, where, ids, canary=canary, rate=rate, by=by)
        return drive(start(run), self._driver("start"))

    def drive(self, id: str, *, progress: Progress | None = None) -> ReplayRun:
        """Carry a replay to its end, also one whose driver has died; answers how it ended.

        Interrupted, it stays as it is, and anybody may drive it on. `progress` is called with (done, total).

        Raises:
            RepairError: there is none, or somebody else is at it, as far as the last 30 s tell.
        """
        driver, me = self._driver("drive"), _me(self._app)
        try:
            return drive(Driving(id, me, progress).drive(), driver)
        except BaseException:
            with suppress(HeadraceError):  # else its lease runs out
                drive(ask(LeaveReplay(register=REGISTERS + id, driver=me)), driver)
            raise

    def get(self, id: str) -> ReplayRun:
        """How a replay stands.

        Raises:
            RepairError: there is none.
        """
        return drive(look(id), self._driver("get"))

    def list(self) -> Sequence[ReplayRun]:
        """All replays of the last 30 days, the newest first."""
        return drive(look_all(), self._driver("list"))

    def cancel(self, id: str, *, by: str = "") -> ReplayRun:
        """End a replay where it is. What has been replayed stays so; one that has ended stays as it is.

        Raises:
            RepairError: there is none.
        """
        return drive(cancel(id, by), self._driver("cancel"))

    def _driver(self, method: str) -> Any:
        refuse_in_loop(f"app.jobs.replays.{method}", f"app.ajobs.replays.{method}")
        return self._app.driver


class AsyncReplays:
    """`app.ajobs.replays`."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def start(
        self,
        where: FailedFilter | None = None,
        *,
        ids: Iterable[str] | None = None,
        canary: int = 0,
        rate: float | None = None,
        by: str = "",
    ) -> ReplayRun:
        """Note in the store that failed jobs are to be replayed; `drive` does it.

        Meant are those that have failed by now, and of these each is made ready once, whoever else replays them.

        Args:
            where: which; `FailedFilter()` means all.
            ids: these, in place of `where`: at most 1,000.
            canary: so many, the newest of each queue in turn, go first. The others follow when all of these have ended
                well; when one fails an attempt, the replay is stopped.
            rate: at most so many jobs per second; None: as fast as the store takes them.
            by: who does it.

        Raises:
            ConfigError: an option is out of range, or both ids and a filter are given, or neither.
        """
        run = _new(self._app, where, ids, canary=canary, rate=rate, by=by)
        return await adrive(start(run), self._app.driver)

    async def drive(self, id: str, *, progress: Progress | None = None) -> ReplayRun:
        """Carry a replay to its end, also one whose driver has died; answers how it ended.

        Interrupted, it stays as it is, and anybody may drive it on. `progress` is called with (done, total).

        Raises:
            RepairError: there is none, or somebody else is at it, as far as the last 30 s tell.
        """
        driver, me = self._app.driver, _me(self._app)
        try:
            return await adrive(Driving(id, me, progress).drive(), driver)
        except BaseException:
            with suppress(HeadraceError):  # else its lease runs out
                await adrive(ask(LeaveReplay(register=REGISTERS + id, driver=me)), driver)
            raise

    async def get(self, id: str) -> ReplayRun:
        """How a replay stands.

        Raises:
            RepairError: there is none.
        """
        return await adrive(look(id), self._app.driver)

    async def list(self) -> Sequence[ReplayRun]:
        """All replays of the last 30 days, the newest first."""
        return await adrive(look_all(), self._app.driver)

    async def cancel(self, id: str, *, by: str = "") -> ReplayRun:
        """End a replay where it is. What has been replayed stays so; one that has ended stays as it is.

        Raises:
            RepairError: there is none.
        """
        return await adrive(cancel(id, by), self._app.driver)
