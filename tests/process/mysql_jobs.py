"""What the tests of the MySQL driver share: short ways to open, to enqueue, and to look behind the driver's back."""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from headrace.core import operations as ops
from headrace.core.states import State
from headrace.drivers.mysql import MySQLDriver
from headrace.drivers.mysql.line import Line
from headrace.stores.mysql import MySQLStore
from headrace.testing.conformance.harness import LEASE, job, outcome
from tests.contract.prefixes import connect
from tests.waiting import wait_until

DAY = 24 * 3600 * 1_000_000


def open_driver(url: str, name: str, now: Callable[[], int] | None = None) -> MySQLDriver:
    """A driver on tables of its own."""
    return MySQLDriver(url, MySQLStore(now=now, prefix=f"{name}_"))


def enqueue(run: Callable[[Any], Any], *jobs: ops.NewJob | str) -> list[str]:
    """How each of them ended."""
    wanted = tuple(job(each) if isinstance(each, str) else each for each in jobs)
    return [answer.status for answer in run(ops.Enqueue(wanted))]


def claim(run: Callable[[Any], Any], number: int, limit: int = 1, worker: str = "w") -> list[ops.ClaimedJob]:
    claimed: ops.Claimed = run(ops.Claim(worker, number, ("q",), limit, LEASE))
    return claimed.jobs


def settle(claims: Iterable[ops.ClaimedJob], state: State = State.SUCCEEDED) -> ops.Settle:
    return ops.Settle("w", tuple(outcome(each, state) for each in claims))


def ask(url: str, statement: str, *values: object) -> list[tuple[Any, ...]]:
    """Run one statement on a connection of the test's own."""
    connection = connect(url)
    try:
        with connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            rows = list(cursor.fetchall())
        connection.commit()
    finally:
        connection.close()
    return rows


def waiting(url: str) -> int:
    """How many transactions wait for a lock of another."""
    return int(ask(url, "select count(*) from information_schema.innodb_trx where trx_state = 'LOCK WAIT'")[0][0])


def at_once(*actions: Callable[[], Any]) -> list[Any]:
    """Run all in threads that start together; their answers, in order. An error in one is raised here."""
    barrier = threading.Barrier(len(actions))

    def act(action: Callable[[], Any]) -> Any:
        barrier.wait(10)
        return action()

    with ThreadPoolExecutor(len(actions)) as pool:
        return [future.result() for future in [pool.submit(act, action) for action in actions]]


class HalfDone:
    """An operation whose transaction has done everything but the commit."""

    def __init__(self, driver: MySQLDriver, operation: Any) -> None:
        self._line = Line(driver.address, driver._texts)
        self._reached, self._go = threading.Event(), threading.Event()
        self.answer: Any = None
        self._thread = threading.Thread(target=self._run, args=(driver.store.plan(operation),))
        self._thread.start()
        assert self._reached.wait(10)

    def _run(self, plan: Any) -> None:
        def held() -> Any:
            answer = yield from plan
            self._reached.set()
            self._go.wait(20)
            return answer

        try:
            self.answer = self._line.run(held(), writes=True)
        finally:
            self._reached.set()

    def commit(self) -> Any:
        self._go.set()
        self._thread.join()
        self._line.drop()
        return self.answer


def while_half_done(
    driver: MySQLDriver, url: str, first: Any, second: Any, blocked: Callable[[], bool] | None = None
) -> tuple[Any, Any]:
    """`second` is sent while `first` is half done, and must wait for it."""
    half = HalfDone(driver, first)
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(driver.run(second)))
    thread.start()
    try:
        wait_until(blocked or (lambda: waiting(url) > 0), what="the second to wait for the first")
        assert answers == []
    finally:
        first_answer = half.commit()
        thread.join()
    return first_answer, answers[0]
