"""Code outside of jobs that must take effect once: `with app.once("charge:17") as run:`.

A record in the store of the jobs holds the key: by a lease that is renewed while the block runs, then with the result.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import random
import secrets
import time
from collections.abc import Iterator
from datetime import timedelta
from types import TracebackType
from typing import Any, Literal, Protocol, Self

import msgspec

from headrace.core import once, values
from headrace.core.durations import micros
from headrace.core.errortext import describe
from headrace.core.keys import checked, storable
from headrace.core.once_records import EndOnce, LookOnce, OnceClaim, OnceTaken, OnceView, TakeOnce
from headrace.core.operations import Operation
from headrace.core.ports import Clock, Driver
from headrace.errors import (
    ConfigError,
    HeadraceError,
    InvalidArguments,
    LeaseLost,
    OnceBusy,
    OnceConflict,
    OnceError,
    OnceFailed,
    RolledBack,
    StoreError,
    TaskError,
)
from headrace.holding import MOMENT_S, Holding
from headrace.sending import refuse_in_loop
from headrace.transactions import Transactions, alend, lend

LEAST_LEASE_S = 1.0
MAX_SCOPE = 200  # characters
LOOK_S = 0.25  # first pause before a caller that waits for its turn looks again
LOOK_MOST_S = 2.0

_encoder = msgspec.json.Encoder(enc_hook=values.enc_hook, order="sorted")


class App(Protocol):
    """What is needed of the app."""

    @property
    def driver(self) -> Driver:
        """The store."""
        ...

    @property
    def clock(self) -> Clock:
        """Measures leases and waits."""
        ...

    @property
    def rng(self) -> random.Random:
        """Jitter."""
        ...


class Terms(msgspec.Struct, frozen=True):
    """How one key is used: the arguments of `Headrace.once`."""

    scope: str
    key: str
    fingerprint: bytes
    lifetime_us: int
    lease_us: int
    wait_s: float
    failures: Literal["free", "keep"]


def terms(
    key: str,
    arguments: Any,
    *,
    scope: str,
    lifetime: timedelta | float | str,
    lease: timedelta | float | str,
    wait: timedelta | float | str,
    failures: Literal["free", "keep"],
) -> Terms:
    """The checked terms.

    Raises:
        ConfigError, InvalidArguments: see `Headrace.once`.
    """
    storable(scope, "once scope", least=0, most=MAX_SCOPE)
    policy = once.Once(lambda: key, lifetime, failures)
    lease_us = micros(lease, "lease")
    if lease_us < LEAST_LEASE_S * 1_000_000:
        raise ConfigError(f"lease is {lease!r}: it must be at least 1 s")
    try:
        print_ = hashlib.sha256(_encoder.encode(arguments)).digest()
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise InvalidArguments(f"the arguments {arguments!r:.80} cannot be encoded as JSON: {error}") from error
    wait_s = micros(wait, "wait") / 1_000_000
    return Terms(f"once:{scope}", checked(key, "once"), print_, policy.lifetime_us, lease_us, wait_s, failures)


class OnceRun:
    """One try to take effect under a key: a context manager for `with` and `async with`.

    `done`: an earlier one took effect, `result` is what it left, and there is nothing to do. Else take effect, and
    assign to `result` (a JSON value of at most 64 KiB) what later ones shall get. It is stored when the block ends; a
    block that raises leaves the key free, or keeps the failure, as `failures` says. A result that is no such value is
    not kept, and raises InvalidArguments at the end of the block; the key is done all the same.
    """

    def __init__(self, app: App, terms: Terms) -> None:
        self._app = app
        self._terms = terms
        self._owner = secrets.token_hex(16)
        self._holding: Holding | None = None
        self.fence = 0
        self.done = False
        self.result: Any = None

    @property
    def key(self) -> str:
        """The key: hand it to a service that takes idempotency keys."""
        return self._terms.key

    @property
    def lost(self) -> bool:
        """Whether somebody else has taken the key, or may have: whatever this block does now, it is not the one."""
        return self._holding is not None and self._holding.lost

    def complete(self, result: Any = None, *, transaction: Any) -> None:
        """Store the result in a transaction of the caller's: effect and result commit together, or neither does.

        `transaction` is what `task.using(transaction=...)` takes, of the database that holds the jobs. Commit it
        before the block ends.

        Raises:
            LeaseLost: somebody else has the key. Let it pass, so that all is rolled back.
            ConfigError: it is no transaction of the database with the jobs.
            WrongColour: called inside a running event loop.
        """
        refuse_in_loop("complete", "acomplete")
        (holding, transactions), loan = self._completing(), lend(transaction)
        with holding.ending():
            holding.check(transactions.run(loan, self._ending(holding, result)))
        self.result = result

    async def acomplete(self, result: Any = None, *, transaction: Any) -> None:
        """The same, awaited."""
        (holding, transactions), loan = self._completing(), alend(transaction)
        with holding.ending():
            holding.check(await transactions.arun(loan, self._ending(holding, result)))
        self.result = result

    def __enter__(self) -> Self:
        refuse_in_loop("with app.once(...)", "async with app.once(...)")
        give_up = self._entered()
        for pause in self._pauses(give_up):
            sent = time.monotonic()
            if self._begun(self._app.driver.run(self._taking())[0], sent, give_up):
                break
            self._app.clock.sleep(pause)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        holding = self._holding
        if holding is None:
            return
        if holding.close():
            if error is None and self._is_committed(holding, self._app.driver.run(self._look())):
                return
            holding.end_aside(self._giving_back(holding, error)).join(MOMENT_S)
            self._say_rolled_back(error)
        elif error is None:
            end, problem = self._left(holding)
            holding.check(self._insist(holding, end))
            self._say(problem)
        elif not holding.taken:
            with contextlib.suppress(HeadraceError):  # the error of the block says more; the lease ends by itself
                self._app.driver.run(self._giving_back(holding, error))

    def _insist(self, holding: Holding, operation: Operation[bool]) -> bool:
        """The effect has happened: its result is to be stored, for as long as the lease lasts."""
        while True:
            try:
                return self._app.driver.run(operation)
            except StoreError:  # a full store may have room again
                if holding.is_over:
                    raise
                self._app.clock.sleep(LOOK_S)

    # -- async with

    async def __aenter__(self) -> Self:
        give_up = self._entered()
        for pause in self._pauses(give_up):
            sent = time.monotonic()
            if self._begun((await self._app.driver.arun(self._taking()))[0], sent, give_up):
                break
            await asyncio.sleep(pause)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        holding = self._holding
        if holding is None:
            return
        if holding.close():
            if error is None and self._is_committed(holding, await self._app.driver.arun(self._look())):
                return
            await asyncio.to_thread(holding.end_aside(self._giving_back(holding, error)).join, MOMENT_S)
            self._say_rolled_back(error)
        elif error is None:
            end, problem = self._left(holding)
            holding.check(await self._ainsist(holding, end))
            self._say(problem)
        elif not holding.taken:
            with contextlib.suppress(HeadraceError):
                await self._app.driver.arun(self._giving_back(holding, error))

    async def _ainsist(self, holding: Holding, operation: Operation[bool]) -> bool:
        while True:
            try:
                return await self._app.driver.arun(operation)
            except StoreError:
                if holding.is_over:
                    raise
                await asyncio.sleep(LOOK_S)

    # -- what both have in common

    def _entered(self) -> float:
        """When to give up waiting for one's turn."""
        if self.done or self._holding is not None:
            raise TaskError("a block is entered once: call app.once(...) for each")
        return self._app.clock.monotonic() + self._terms.wait_s

    def _pauses(self, give_up: float) -> Iterator[float]:
        pause = LOOK_S
        while True:
            left = max(0.0, give_up - self._app.clock.monotonic())
            yield min(left, pause * (0.5 + self._app.rng.random()))
            pause = min(LOOK_MOST_S, 2 * pause)

    def _claim(self) -> OnceClaim:
        terms = self._terms
        return OnceClaim(terms.scope, terms.key, terms.fingerprint, self._owner, lease_us=terms.lease_us)

    def _taking(self) -> TakeOnce:
        return TakeOnce((self._claim(),))

    def _begun(self, taken: OnceTaken, sent: float, give_up: float) -> bool:
        """Whether the block may begin. False: wait for one's turn."""
        key = self._terms.key
        match taken.status:
            case "mine":
                self.fence = taken.fence
                name = f"the once key {key!r}"
                self._holding = Holding(self._app.driver, self._claim(), taken.fence, name, sent)
                self._holding.start()
            case "done":
                self.done, self.fence = True, taken.fence
                self.result = _result(taken.result)
            case "failed":
                error, message = once.decode_failure(taken.result)
                raise OnceFailed(f"an earlier run under the once key {key!r} has failed: {error}: {message}")
            case "other":
                raise OnceConflict(f"the once key {key!r} stands for a call with other arguments")
            case "held":
                if self._app.clock.monotonic() >= give_up:
                    lasts_s = max(LEAST_LEASE_S, taken.lease_us / 1_000_000)
                    raise OnceBusy(f"somebody else is at it under the once key {key!r}", lasts_s)
                return False
        return True

    def _ending(self, holding: Holding, result: Any) -> EndOnce:
        return holding.end("done", once.encode_result(result), self._terms.lifetime_us)

    def _left(self, holding: Holding) -> tuple[EndOnce, InvalidArguments | None]:
        """The end of a block, and why its result is not kept: the effect has happened, so the key is not free again."""
        try:
            return self._ending(holding, self.result), None
        except InvalidArguments as error:
            return holding.end("done", None, self._terms.lifetime_us), error

    def _say(self, problem: InvalidArguments | None) -> None:
        if problem is not None:
            done = f"the block under the once key {self._terms.key!r} took effect, and later ones will not"
            raise InvalidArguments(f"{done}; but its result cannot be kept: {problem}") from problem

    def _giving_back(self, holding: Holding, error: BaseException | None) -> EndOnce:
        """What ends the record of a block that has not taken effect."""
        if self._terms.failures == "keep" and isinstance(error, Exception) and not isinstance(error, LeaseLost):
            text = describe(error)
            failure = msgspec.json.encode({"type": text.type, "message": text.message})
            return holding.end("failed", failure, self._terms.lifetime_us)
        return holding.end("free", None, self._terms.lifetime_us)

    def _completing(self) -> tuple[Holding, Transactions]:
        if self._holding is None:
            raise TaskError("there is nothing to complete: the block has not begun, or an earlier run took effect")
        driver = self._app.driver
        transactions = Transactions.on(driver)
        if not transactions.in_database:
            raise ConfigError(
                f"the once record is in {driver.describe()}, which no transaction of your database reaches: assign to "
                "`result` and leave the block, and make the effect itself safe to repeat"
            )
        return self._holding, transactions

    def _look(self) -> LookOnce:
        return LookOnce(self._terms.scope, self._terms.key)

    def _is_committed(self, holding: Holding, view: OnceView | None) -> bool:
        """Whether the caller's transaction is, by the record. It is another's where it names another holder."""
        mine = view is not None and (view.owner, view.fence) == (self._owner, self.fence)
        holding.check(mine)
        return view is not None and view.state == "done"

    def _say_rolled_back(self, error: BaseException | None) -> None:
        if error is None:
            raise RolledBack(f"the transaction that completed the once key {self._terms.key!r} was not committed")


def _result(raw: bytes | None) -> Any:
    try:
        return None if raw is None else msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise OnceError(f"an earlier run took effect, but what it left cannot be read: {error}") from None
