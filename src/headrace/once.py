"""Code outside of jobs that must take effect once: `with app.once("charge:17") as run:`.

A record in the store of the jobs holds the key: by a lease that is renewed while the block runs, then with the result.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import random
import secrets
import threading
from collections.abc import Iterator
from datetime import timedelta
from types import TracebackType
from typing import Any, Literal, NoReturn, Protocol, Self

import msgspec

from headrace.core import once, values
from headrace.core.durations import micros
from headrace.core.errortext import describe
from headrace.core.keys import checked
from headrace.core.once_records import EndOnce, LookOnce, OnceClaim, OnceTaken, RenewOnce, TakeOnce
from headrace.core.operations import OnceEnd, Operation
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
from headrace.sending import refuse_in_loop
from headrace.transactions import Transactions, alend, lend

LEAST_LEASE_S = 1.0
RENEWALS = 3  # in each lease
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
        self._stop = threading.Event()
        self._renewer: threading.Thread | asyncio.Task[None] | None = None
        self._committing = False
        self._renewed_at = 0.0
        self.fence = 0
        self.done = False
        self.lost = False  # somebody else has taken the key: whatever this block does now, it is not the one
        self.result: Any = None

    @property
    def key(self) -> str:
        """The key: hand it to a service that takes idempotency keys."""
        return self._terms.key

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
        transactions, loan = self._transactions(), lend(transaction)
        with self._completing():
            if not transactions.run(loan, self._ending(result)):
                self._lose()
        self.result = result

    async def acomplete(self, result: Any = None, *, transaction: Any) -> None:
        """The same, awaited."""
        transactions, loan = self._transactions(), alend(transaction)
        with self._completing():
            if not await transactions.arun(loan, self._ending(result)):
                self._lose()
        self.result = result

    def __enter__(self) -> Self:
        refuse_in_loop("with app.once(...)", "async with app.once(...)")
        give_up = self._entered()
        for pause in self._pauses(give_up):
            sent = self._app.clock.monotonic()
            if self._begun(self._app.driver.run(self._taking())[0], sent, give_up):
                break
            self._app.clock.sleep(pause)
        if not self.done:
            self._renewer = threading.Thread(target=self._keep, name="headrace-once", daemon=True)
            self._renewer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.done:
            return
        self._stop.set()
        if isinstance(self._renewer, threading.Thread):
            self._renewer.join()
        if error is None and self._committing:
            self._conclude(self._app.driver.run(self._look()))
        elif error is None:
            end, problem = self._left()
            if not self._insist(end):
                self._lose()
            self._say(problem)
        else:
            with contextlib.suppress(HeadraceError):  # the error of the block says more; the lease ends by itself
                self._app.driver.run(self._giving_back(error))

    def _keep(self) -> None:
        """Renew the lease until the block ends."""
        while not self._stop.wait(self._pause_s) and not self.lost:
            sent = self._app.clock.monotonic()
            try:
                if not self._committing:
                    self._heard(sent, mine=self._app.driver.run(self._renewing()))
            except Exception:  # noqa: BLE001 - whatever it is, the block goes on, and needs its key
                self._unheard()

    def _insist(self, operation: Operation[bool]) -> bool:
        """The effect has happened: its result is to be stored, for as long as the lease lasts."""
        while True:
            try:
                return self._app.driver.run(operation)
            except StoreError:  # a full store may have room again
                if self._is_over():
                    raise
                self._app.clock.sleep(LOOK_S)

    # -- async with

    async def __aenter__(self) -> Self:
        give_up = self._entered()
        for pause in self._pauses(give_up):
            sent = self._app.clock.monotonic()
            if self._begun((await self._app.driver.arun(self._taking()))[0], sent, give_up):
                break
            await asyncio.sleep(pause)
        if not self.done:
            self._renewer = asyncio.get_running_loop().create_task(self._akeep(), name="headrace-once")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.done:
            return
        if isinstance(self._renewer, asyncio.Task):
            self._renewer.cancel()
            await asyncio.gather(self._renewer, return_exceptions=True)
        if error is None and self._committing:
            self._conclude(await self._app.driver.arun(self._look()))
        elif error is None:
            end, problem = self._left()
            if not await self._ainsist(end):
                self._lose()
            self._say(problem)
        else:
            with contextlib.suppress(HeadraceError):
                await self._app.driver.arun(self._giving_back(error))

    async def _akeep(self) -> None:
        while not self.lost:
            await asyncio.sleep(self._pause_s)
            sent = self._app.clock.monotonic()
            try:
                if not self._committing:
                    self._heard(sent, mine=await self._app.driver.arun(self._renewing()))
            except Exception:  # noqa: BLE001 - whatever it is, the block goes on, and needs its key
                self._unheard()

    async def _ainsist(self, operation: Operation[bool]) -> bool:
        while True:
            try:
                return await self._app.driver.arun(operation)
            except StoreError:
                if self._is_over():
                    raise
                await asyncio.sleep(LOOK_S)

    # -- what both have in common

    def _entered(self) -> float:
        """When to give up waiting for one's turn."""
        if self.done or self._renewer is not None:
            raise TaskError("a block is entered once: call app.once(...) for each")
        return self._app.clock.monotonic() + self._terms.wait_s

    def _pauses(self, give_up: float) -> Iterator[float]:
        pause = LOOK_S
        while True:
            left = max(0.0, give_up - self._app.clock.monotonic())
            yield min(left, pause * (0.5 + self._app.rng.random()))
            pause = min(LOOK_MOST_S, 2 * pause)

    @property
    def _pause_s(self) -> float:
        return self._terms.lease_us / RENEWALS / 1_000_000

    def _taking(self) -> TakeOnce:
        terms = self._terms
        claim = OnceClaim(terms.scope, terms.key, terms.fingerprint, self._owner, lease_us=terms.lease_us)
        return TakeOnce((claim,))

    def _begun(self, taken: OnceTaken, sent: float, give_up: float) -> bool:
        """Whether the block may begin. False: wait for one's turn."""
        key = self._terms.key
        match taken.status:
            case "mine":
                self.fence, self._renewed_at = taken.fence, sent
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

    def _renewing(self) -> RenewOnce:
        return RenewOnce(self._terms.scope, self._terms.key, self._owner, self._terms.lease_us)

    def _heard(self, sent: float, *, mine: bool) -> None:
        """A renewal was answered. While the result is being stored, a record that is not held is no loss."""
        if mine:
            self._renewed_at = sent
        elif not self._committing:
            self.lost = True

    def _unheard(self) -> None:
        """A renewal was not answered: the next one is made in a while."""
        self.lost = self._is_over()

    def _is_over(self) -> bool:
        return self._app.clock.monotonic() - self._renewed_at >= self._terms.lease_us / 1_000_000

    def _ending(self, result: Any) -> EndOnce:
        return self._end("done", once.encode_result(result))

    def _left(self) -> tuple[EndOnce, InvalidArguments | None]:
        """The end of a block, and why its result is not kept: the effect has happened, so the key is not free again."""
        try:
            return self._ending(self.result), None
        except InvalidArguments as error:
            return self._end("done", None), error

    def _say(self, problem: InvalidArguments | None) -> None:
        if problem is not None:
            done = f"the block under the once key {self._terms.key!r} took effect, and later ones will not"
            raise InvalidArguments(f"{done}; but its result cannot be kept: {problem}") from problem

    def _giving_back(self, error: BaseException) -> EndOnce:
        if self._terms.failures == "keep" and isinstance(error, Exception) and not isinstance(error, LeaseLost):
            text = describe(error)
            return self._end("failed", msgspec.json.encode({"type": text.type, "message": text.message}))
        return self._end("free", None)

    def _end(self, state: Literal["done", "failed", "free"], result: bytes | None) -> EndOnce:
        terms = self._terms
        return EndOnce(self._owner, OnceEnd(terms.scope, terms.key, self.fence, state, result, terms.lifetime_us))

    def _transactions(self) -> Transactions:
        if self.done or self._renewer is None:
            raise TaskError("there is nothing to complete: the block has not begun, or an earlier run took effect")
        driver = self._app.driver
        transactions = Transactions.on(driver)
        if not transactions.in_database:
            raise ConfigError(
                f"the once record is in {driver.describe()}, which no transaction of your database reaches: assign to "
                "`result` and leave the block, and make the effect itself safe to repeat"
            )
        return transactions

    @contextlib.contextmanager
    def _completing(self) -> Iterator[None]:
        """From before the first statement on, the record may have ended, whatever becomes of this call."""
        self._committing = True  # nothing is renewed: whoever wants the key waits for that transaction, lease or not
        try:
            yield
        except (ConfigError, InvalidArguments):  # nothing was changed
            self._committing = False
            raise

    def _lose(self) -> NoReturn:
        self.lost = True
        raise LeaseLost(
            f"the once key {self._terms.key!r} is not held any more: its lease was over, and another run has it: "
            "roll back"
        )

    def _look(self) -> LookOnce:
        return LookOnce(self._terms.scope, self._terms.key)

    def _conclude(self, view: Any) -> None:
        """After a completion in the caller's transaction: has it been committed?"""
        if view is None or (view.owner, view.fence) != (self._owner, self.fence):
            self._lose()
        elif view.state != "done":
            raise RolledBack(f"the transaction that completed the once key {self._terms.key!r} was not committed")


def _result(raw: bytes | None) -> Any:
    try:
        return None if raw is None else msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise OnceError(f"an earlier run took effect, but what it left cannot be read: {error}") from None
