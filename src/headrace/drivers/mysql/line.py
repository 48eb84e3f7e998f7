"""The connection of a synchronous caller, and the idle ones of this process."""

from __future__ import annotations

import os
import time
from collections import deque
from ssl import SSLSocket
from typing import Any

import pymysql  # type: ignore[import-untyped]
from pymysql.constants import CLIENT  # type: ignore[import-untyped]

from headrace.drivers.mysql.address import Address
from headrace.drivers.mysql.problems import is_lost, translate
from headrace.drivers.mysql.silence import is_silent
from headrace.drivers.mysql.text import Kept, Texts
from headrace.drivers.run import run
from headrace.errors import StoreError
from headrace.stores.plan import Plan, Statement, Step

IDLE = 16  # connections kept when nobody uses them
PING_AFTER_S = 30.0  # seconds that one may lie idle before we ask whether it still works

SESSION = (("session.isolation", ()), ("session.settings", ("lock_wait",)))


def session_steps(address: Address) -> list[Statement]:
    """What a new connection is set to."""
    return [Statement(name, {each: getattr(address, each) for each in wanted}) for name, wanted in SESSION]


class Line:
    """One connection. Not shared: a thread takes it, uses it, puts it back."""

    def __init__(self, address: Address, texts: Texts) -> None:
        self._address = address
        self._texts = texts
        self.usable = True  # nobody may use it any more after a loss, or with a request under way
        self._in_transaction = False
        self._kept = Kept()
        self._used_at = time.monotonic()
        try:
            self._raw = pymysql.connect(
                **address.arguments(),
                connect_timeout=max(1, round(address.connect_timeout)),
                write_timeout=address.read_timeout,
                client_flag=CLIENT.MULTI_STATEMENTS,
                # it would take up TLS unasked, and then believe any certificate
                ssl_disabled=address.tls_context() is None,
            )
        except (pymysql.MySQLError, OSError) as error:
            raise translate(error, pymysql, address) from error
        try:
            for step in session_steps(address):
                self.execute(step)
        except BaseException:
            self.drop()
            raise

    def run(self, plan: Plan[Any], *, writes: bool) -> Any:
        """Carry out a plan, in one transaction where it writes. An error undoes it."""
        try:
            answer = run(plan, self.transact if writes else self.execute)
            self._end("commit")
        except BaseException as error:
            self._undo(error)
            raise
        return answer

    def transact(self, step: Step) -> Any:
        """Carry out one step in a transaction, which begins with the first that needs one."""
        if not self._in_transaction and not (isinstance(step, Statement) and step.alone):
            self._in_transaction = True
            self._kept.add("begin")
        if isinstance(step, Statement) and step.mute and self._in_transaction:
            for packet in self._texts.packets(step):
                if self._kept.add(packet):
                    self._query(self._kept.take())
            return []
        return self.execute(step)

    def execute(self, step: Step) -> Any:
        """Carry out one step as it is."""
        rows: Any = []
        for packet in self._texts.packets(step):
            rows = self._query(self._kept.take(packet))
        return rows

    def _query(self, text: str) -> Any:
        """Send some statements; the rows of the last one.

        Raises:
            StoreError: or one of its kind; `usable` tells whether the connection still is.
        """
        self.usable = False  # until every answer has been read
        cursor = self._raw.cursor()
        try:
            cursor.execute(text)
            rows = cursor.fetchall()
            while cursor.nextset():
                rows = cursor.fetchall()
        except (pymysql.MySQLError, OSError) as error:
            self.usable = not is_lost(error)
            raise translate(error, pymysql, self._address) from error
        self.usable = True
        return rows

    def _end(self, how: str) -> None:
        if self._in_transaction:
            self._query(self._kept.take(how))
            self._in_transaction = False

    def _undo(self, error: BaseException) -> None:
        """Roll back; a connection that cannot even do that is given up."""
        if not isinstance(error, Exception) or not self.usable:
            self.drop()
            return
        self._kept = Kept()
        try:
            self._end("rollback")
        except StoreError:
            self.drop()

    def works(self) -> bool:
        """False when the server has hung up, or does not answer after a long rest."""
        raw = self._raw._sock  # noqa: SLF001 - nothing else tells whether the server has hung up
        if not self.usable or raw is None:
            return False
        if not isinstance(raw, SSLSocket) and not is_silent(raw):  # TLS has things of its own to say
            return False
        if time.monotonic() - self._used_at > PING_AFTER_S:
            try:
                self._raw.ping(reconnect=False)
            except (pymysql.MySQLError, OSError):
                return False
        return True

    def rest(self) -> None:
        """Note the time."""
        self._used_at = time.monotonic()

    def drop(self) -> None:
        """Close the socket without a goodbye, which may block, or belong to another process."""
        self.usable = False
        if getattr(self, "_raw", None) is not None:
            self._raw._force_close()  # noqa: SLF001 - `close` says goodbye, on a socket that may be the parent's


class Lines:
    """Idle lines of this process, the one used last on top. A fork starts with none (B121)."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._idle: deque[Line] = deque()

    def take(self) -> Line | None:
        """An idle line that still works, if there is one."""
        if os.getpid() != self._process:
            self._after_fork()
        while self._idle:
            try:
                line = self._idle.pop()
            except IndexError:  # another thread was quicker
                break
            if line.works():
                return line
            line.drop()
        return None

    def put_back(self, line: Line) -> None:
        """Keep it for the next caller, unless an answer may still arrive on it."""
        if not line.usable or len(self._idle) >= IDLE:
            line.drop()
        else:
            line.rest()
            self._idle.append(line)

    def close(self) -> None:
        """Close what is idle."""
        while self._idle:
            try:
                line = self._idle.pop()
            except IndexError:
                break
            line.drop()

    def _after_fork(self) -> None:
        inherited, self._idle, self._process = self._idle, deque(), os.getpid()
        for line in inherited:  # closes our copies of the sockets; the parent goes on with its own
            line.drop()
