"""What a caller's transaction can do for us, whatever library it belongs to, and statements in its dialect."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

from headrace.core.operations import Enqueue, Operation, Settle
from headrace.drivers.paramstyle import pyformat, spread
from headrace.drivers.run import arun, run
from headrace.drivers.system import SystemClock
from headrace.errors import StoreUnavailable
from headrace.stores.plan import Plan, Statement, Step

R = TypeVar("R")
Rows = list[tuple[Any, ...]]

SNAPSHOT = 517  # SQLITE_BUSY_SNAPSHOT


class SQLStore(Protocol):
    """What is needed of a store."""

    @property
    def sql(self) -> Mapping[str, str]:
        """Statements by name."""
        ...

    def plan(self, operation: Operation[R]) -> Plan[R]:
        """The steps of an operation."""
        ...

    def borrowed(self, operation: Operation[R]) -> Plan[R]:
        """The steps of an enqueue or a settle in somebody else's transaction."""
        ...


class Loan(ABC):
    """A caller's transaction, for as long as one call lasts."""

    dialect: str
    awaited: ClassVar[bool] = False

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    @property
    def name(self) -> str:
        """What the caller has handed over, in words."""
        return type(self.thing).__name__

    @property
    def home(self) -> object:
        """What always leads to the same database: the caller's engine, where there is one."""
        return self.thing

    @property
    def place(self) -> str | None:
        """Where names without a schema lead, if the library knows without asking the server; else None."""
        return None

    def on_commit(self, action: Callable[[], None]) -> bool:
        """Have `action` called once the transaction has been committed; False where nobody would tell."""
        return False

    def wait(self, awaitable: Awaitable[object]) -> None:
        """Await it, from inside an action of an awaited transaction."""
        raise NotImplementedError

    def run(self, store: SQLStore, operation: Operation[R]) -> R:
        """Carry out `operation` for a synchronous caller."""
        return run(_plan(store, operation), lambda step: self._step(store, step))

    async def arun(self, store: SQLStore, operation: Operation[R]) -> R:
        """Carry out `operation` for a coroutine."""

        async def step(step: Step) -> Any:
            rows: Any = []
            for text, params in self._texts(store, step):
                rows = params if text is None else await self.aquery(text, params)
            return rows

        return await arun(_plan(store, operation), step)

    def _step(self, store: SQLStore, step: Step) -> Any:
        rows: Any = []
        for text, params in self._texts(store, step):
            rows = params if text is None else self.query(text, params)
        return rows

    def query(self, text: str, params: Any) -> Rows:
        """One statement; `params` are a mapping, or a list of tuples for as many executions."""
        raise NotImplementedError

    async def aquery(self, text: str, params: Any) -> Rows:
        """The same, awaited."""
        raise NotImplementedError

    def _texts(self, store: SQLStore, step: Step) -> Iterator[tuple[str | None, Any]]:
        assert isinstance(step, Statement)
        yield from _DIALECTS[self.dialect](store.sql[step.sql], step)

    @abstractmethod
    def check(self) -> None:
        """Refuse what is not in a transaction, or in one that is lost.

        Raises:
            ConfigError: says what to do.
        """

    def check_commit(self) -> None:
        """Refuse what will not be committed. What only waits for a commit may ask for less than what writes.

        Raises:
            ConfigError: says what to do.
        """
        self.check()


def carry_out(actions: Sequence[Callable[[], None]]) -> None:
    """Do all of it, even where some fails; what can `absorb` another does it in one go. Raises the first error."""
    together: list[Callable[[], None]] = []
    for action in actions:
        if not any(absorbs(action) for earlier in together if (absorbs := getattr(earlier, "absorb", None))):
            together.append(action)
    failure: BaseException | None = None
    for action in together:
        try:
            action()
        except BaseException as error:  # noqa: BLE001 - raised below
            failure = failure or error
    if failure is not None:
        raise failure


def _plan(store: SQLStore, operation: Operation[R]) -> Plan[R]:
    borrowing = isinstance(operation, (Enqueue, Settle))
    return store.borrowed(operation) if borrowing else store.plan(operation)


def _for_sqlite(text: str, step: Statement) -> Iterator[tuple[str | None, Any]]:
    if step.sql == "moment.now":  # asks a function that our own connections have: the clock of this machine
        now = (step.params or {})["now"]
        yield None, [(SystemClock().unix_us() if now is None else now,)]
    else:
        yield text, step.params or {} if step.many is None else [tuple(row) for row in step.many]


def _for_postgres(text: str, step: Statement) -> Iterator[tuple[str | None, Any]]:
    for row in [step.params or {}] if step.many is None else step.many:
        yield pyformat(text), row


def _for_mysql(text: str, step: Statement) -> Iterator[tuple[str | None, Any]]:
    rows: list[Any] = list(step.many or [])
    if step.many is None or ":rows" in text:
        spread_text, params = spread(text, step.params or {}, rows)
        yield pyformat(spread_text), params
        return
    for row in rows:
        spread_text, params = spread(text, row)
        yield pyformat(spread_text), params


_DIALECTS: dict[str, Callable[[str, Statement], Iterator[tuple[str | None, Any]]]] = {
    "sqlite": _for_sqlite,
    "postgres": _for_postgres,
    "mysql": _for_mysql,
}


def stale(error: Exception) -> StoreUnavailable:
    """A transaction that has read cannot write after others have."""
    return StoreUnavailable(
        f"another connection has written since this transaction began to read ({error}): begin those that enqueue with "
        "BEGIN IMMEDIATE"
    )
