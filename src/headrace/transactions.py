"""Operations in transactions of the caller's: whether one reaches the app's tables, and what follows its commit."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast
from weakref import WeakKeyDictionary, ref

from headrace.core.operations import Enqueue, Enqueued, NewJob, Operation, Settle
from headrace.core.ports import Driver
from headrace.core.ringing import rings
from headrace.core.transactions import Installation
from headrace.drivers.borrowed import Loan, Rows, SQLStore, borrow
from headrace.errors import ConfigError, HeadraceError, WrongColour
from headrace.sending import as_new

logger = logging.getLogger("headrace")

R = TypeVar("R")

FILES = "pragma database_list"
# Where a table's name leads that names no schema. A connection may be led elsewhere at any time, to tables of the same
# names that are another installation's.
PLACES = {"postgres": "show search_path", "mysql": "select database()"}


class Database(Protocol):
    """A driver of a SQL store."""

    store: SQLStore

    def run(self, operation: Operation[R]) -> R:
        """Run in a transaction of the driver's own."""
        ...

    async def arun(self, operation: Operation[R]) -> R:
        """The same, awaited."""
        ...

    def ring(self, queues: list[str]) -> None:
        """Wake the workers of these queues."""
        ...

    def describe(self) -> str:
        """The address without its password."""
        ...


def lend(transaction: Any) -> Loan:
    """What a synchronous caller has handed over.

    Raises:
        ConfigError: it is none that we understand, or in no transaction.
        WrongColour: it is an asynchronous one.
    """
    return refuse_awaited(borrow(transaction))


def refuse_awaited(loan: Loan) -> Loan:
    """The loan, if a synchronous caller may use it.

    Raises:
        WrongColour: it must be awaited.
    """
    if loan.awaited:
        raise WrongColour(f"the {loan.name} must be awaited: use `await aenqueue(...)` and its like")
    return loan


def alend(transaction: Any) -> Loan:
    """The same for a coroutine."""
    return refuse_blocking(borrow(transaction))


def refuse_blocking(loan: Loan) -> Loan:
    """The loan, if a coroutine may use it.

    Raises:
        WrongColour: it would block the event loop.
    """
    if not loan.awaited:
        raise WrongColour(
            f"the {loan.name} would block the event loop: use an asynchronous one here, or "
            "`enqueue(...)` and its like in a thread"
        )
    return loan


class Transactions:
    """What one driver's database knows of transactions of other people's."""

    def __init__(self, driver: Driver) -> None:
        self._driver_of = ref(driver)
        self._dialect: str | None = getattr(getattr(driver, "store", None), "dialect", None)
        self._installation: str | None = None
        # Engines and connections that lead to us, while names lead to this place.
        self._known: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    @classmethod
    def on(cls, driver: Driver) -> Transactions:
        """Those of this driver, which remember what they have found out."""
        found = _found.get(driver)
        if found is None:
            found = _found[driver] = cls(driver)
        return found

    @property
    def in_database(self) -> bool:
        """Whether the store is a SQL database at all."""
        return self._dialect is not None

    @property
    def database(self) -> Database:
        """The driver.

        Raises:
            ConfigError: its store is no SQL database.
        """
        driver = self._driver_of()
        assert driver is not None
        if self._dialect is None:
            raise ConfigError(
                f"the jobs are in {driver.describe()}, which no transaction of your database reaches: name "
                'the database that is to hold the outbox, as in Headrace("redis://...", outbox="postgresql://...")'
                " (HEADRACE_OUTBOX in Flask, OUTBOX in Django's HEADRACE)"
            )
        return cast("Database", driver)

    def send(self, loan: Loan, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Store `jobs` in the transaction."""
        return as_new(jobs, self.run(loan, Enqueue(tuple(jobs))))

    async def asend(self, loan: Loan, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """The same, awaited."""
        return as_new(jobs, await self.arun(loan, Enqueue(tuple(jobs))))

    def run(self, loan: Loan, operation: Operation[R]) -> R:
        """Carry out `operation` in the transaction; who waits for it is woken after the commit, where somebody tells.

        Raises:
            ConfigError: it is one of another database.
        """
        store = self.database.store
        if not self.reaches(loan):
            raise self._elsewhere(loan)
        answer = loan.run(store, operation)
        self._ring_later(loan, operation)
        return answer

    async def arun(self, loan: Loan, operation: Operation[R]) -> R:
        """The same, awaited."""
        store = self.database.store
        if not await self.areaches(loan):
            raise self._elsewhere(loan)
        answer = await loan.arun(store, operation)
        self._ring_later(loan, operation)
        return answer

    def reaches(self, loan: Loan) -> bool:
        """Whether the transaction is one of the database that this driver has open."""
        if loan.dialect != self._dialect:
            return False
        place = loan.place
        if place is None and loan.dialect in PLACES:
            place = loan.query(PLACES[loan.dialect], {})[0][0]
        if self._remembers(loan, place):
            return True
        database = self.database
        if loan.dialect == "sqlite":
            # by the file: a connection of our own would wait for the lock that the caller may hold
            if not self._same_file(loan.query(FILES, {})):
                return False
            return self._has_tables(loan.run(database.store, Installation()))
        if self._installation is None:
            self._installation = database.run(Installation())
        return self._note(loan, place, loan.run(database.store, Installation()))

    async def areaches(self, loan: Loan) -> bool:
        """The same, awaited."""
        if loan.dialect != self._dialect:
            return False
        place = loan.place
        if place is None and loan.dialect in PLACES:
            place = (await loan.aquery(PLACES[loan.dialect], {}))[0][0]
        if self._remembers(loan, place):
            return True
        database = self.database
        if loan.dialect == "sqlite":
            if not self._same_file(await loan.aquery(FILES, {})):
                return False
            return self._has_tables(await loan.arun(database.store, Installation()))
        if self._installation is None:
            self._installation = await database.arun(Installation())
        return self._note(loan, place, await loan.arun(database.store, Installation()))

    def _remembers(self, loan: Loan, place: Any) -> bool:
        try:
            return place is not None and self._known.get(loan.home) == place
        except TypeError:  # a sqlite3.Connection cannot be remembered without being kept
            return False

    def _note(self, loan: Loan, place: Any, installation: str | None) -> bool:
        same = installation is not None and installation == self._installation
        if same:  # another database is looked at again: our tables may be made meanwhile
            with contextlib.suppress(TypeError):  # a connection that cannot be remembered without being kept
                self._known[loan.home] = place
        return same

    def _same_file(self, rows: Rows) -> bool:
        files = [file for _, name, file in rows if name == "main"]
        path: Path = getattr(self.database, "path")  # noqa: B009 - of the SQLite driver, which has one
        return bool(files and files[0]) and Path(files[0]).resolve() == path

    def _has_tables(self, installation: str | None) -> bool:
        if installation is None:
            raise ConfigError(f"{self.database.describe()} has no tables of ours yet: run `headrace schema upgrade`")
        return True

    def _elsewhere(self, loan: Loan) -> ConfigError:
        return ConfigError(
            f"the transaction ({loan.dialect}) is not one of {self.database.describe()}, where the tables of this app "
            "are: only a transaction of that database can hold its jobs, or end them"
        )

    def _ring_later(self, loan: Loan, operation: Operation[Any]) -> None:
        match operation:
            case Enqueue(jobs=jobs) if rings(operation, None):
                queues = sorted({job.queue for job in jobs})
            case Settle(outcomes=outcomes) if any(outcome.then for outcome in outcomes):
                queues = sorted({outcome.queue for outcome in outcomes if outcome.then})
            case Operation(rung=str(queue)):
                queues = [queue]
            case _:
                return
        database = self.database
        loan.on_commit(_beside(lambda: database.ring(queues)))


def _beside(action: Callable[[], None]) -> Callable[[], None]:
    """`action` in a thread where an event loop is running, which it might block. A hint that fails is only noted."""

    def act() -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            try:
                action()
            except (HeadraceError, OSError) as error:  # the commit has succeeded, and workers look by themselves
                logger.debug("a hint was lost: %s", error)
        else:
            loop.run_in_executor(None, action).add_done_callback(_heard)

    return act


def _heard(future: asyncio.Future[None]) -> None:
    if not future.cancelled() and (error := future.exception()) is not None:
        logger.debug("a hint was lost: %s", error)


_found: WeakKeyDictionary[Driver, Transactions] = WeakKeyDictionary()
