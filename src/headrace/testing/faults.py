"""A store behind a bad network: a driver whose calls are delayed, lost, repeated and stalled, all by a seed.

The store itself stays right. What a fault may do is what networks, client libraries and servers do: an error
says nothing about whether the operation took place.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple, TypeVar

import msgspec

from headrace.core import operations as ops
from headrace.core.ports import Driver
from headrace.core.ringing import rings
from headrace.errors import StoreUnavailable

R = TypeVar("R")

Watch = Callable[[str, ops.Operation[Any], Any], None]
"""Called right after an operation took place in the store: sender, operation, answer."""


class FaultRates(msgspec.Struct, frozen=True, kw_only=True):
    """How bad the network is: probabilities per call, durations in seconds.

    The default is a good one that only takes its time.
    """

    delay_s: float = 0.004  # the longest way there, and the longest way back
    drop: float = 0.0  # never arrives
    lose: float = 0.0  # takes place, its answer is lost
    late: float = 0.0  # the caller is told that it failed, and then it takes place
    twice: float = 0.0  # takes place twice, as when a client library sends again; the second answer counts
    stall: float = 0.0  # there or back, it hangs
    lost_hint: float = 0.0  # a wake-up that does not arrive
    error_s: float = 1.0  # the longest time until a failure is known
    late_s: float = 5.0  # the longest time between the first sending and a late arrival
    stall_s: float = 30.0

    @property
    def flawless(self) -> bool:
        """Whether every call takes place once and is answered soon."""
        return not (self.drop or self.lose or self.late or self.twice or self.stall)


PERFECT = FaultRates()


class Delivery(NamedTuple):
    """What becomes of one call, in seconds after it was sent."""

    fate: str
    executed_s: tuple[float, ...]
    replied_s: float
    answered: bool = True


class Network:
    """Draws the fate of each call. Faults end at `until_s` of the loop's time, and with them the outages.

    `outages` are (from, until) in seconds: nothing reaches the store, nothing comes back.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        rng: Random,
        rates: FaultRates = PERFECT,
        *,
        outages: Sequence[tuple[float, float]] = (),
        until_s: float = float("inf"),
        watch: Watch | None = None,
    ) -> None:
        self._loop = loop
        self._rng = rng
        self._rates = rates
        self.outages = tuple(outages)
        self._until_s = until_s
        self._watch = watch
        self._outside = contextvars.copy_context()  # belongs to no simulated process: the store lives on
        self._hints: dict[FaultyWakeup, None] = {}
        self.closed = False
        self.fates: dict[str, int] = {}

    def down(self, at_s: float) -> bool:
        """Whether the store cannot be reached at that time."""
        return at_s < self._until_s and any(start <= at_s < end for start, end in self.outages)

    async def send(self, driver: Driver, sender: str, operation: ops.Operation[R]) -> R:
        """Carry `operation` to the store and its answer back, or not.

        Raises:
            StoreUnavailable: a fault; the operation may have taken place or not, or may yet.
        """
        if self.closed:
            raise StoreUnavailable("the simulation is over")
        delivery = self._draw()
        self.fates[delivery.fate] = self.fates.get(delivery.fate, 0) + 1
        exchange = _Exchange(self, driver, sender, operation, self._loop.create_future())
        for after in delivery.executed_s:
            self._loop.call_later(after, exchange.execute, context=self._outside)
        self._loop.call_later(delivery.replied_s, exchange.reply, delivery, context=self._outside)
        # results, not exceptions: one that reaches a dead process is never looked at
        answer, error = await exchange.answered
        if error is not None:
            raise error
        return answer  # type: ignore[no-any-return]

    def send_now(self, driver: Driver, sender: str, operation: ops.Operation[R]) -> R:
        """The same for a synchronous caller, without time passing."""
        delivery = self._draw()
        if self.closed or not delivery.executed_s:
            raise StoreUnavailable("the network is down")
        answer = driver.run(operation)
        self.happened(sender, operation, answer)
        if not delivery.answered:
            raise StoreUnavailable(f"the network lost it: {delivery.fate}")
        return answer

    def happened(self, sender: str, operation: ops.Operation[Any], answer: Any) -> None:
        """Tell whoever watches, and ring those who wait for jobs."""
        if self._watch is not None:
            self._watch(sender, operation, answer)
        if not rings(operation, answer):
            return
        for hint in list(self._hints):
            if self._faulty and self._rng.random() < self._rates.lost_hint:
                continue
            self._loop.call_later(self._way(), hint.ring, context=self._outside)

    def wakeup(self) -> FaultyWakeup:
        """A hint that may be lost."""
        hint = FaultyWakeup(self._hints)
        self._hints[hint] = None
        return hint

    def now_s(self) -> float:
        """The loop's time."""
        return self._loop.time()

    @property
    def _faulty(self) -> bool:
        return self._loop.time() < self._until_s

    def _way(self) -> float:
        return self._rng.random() * self._rates.delay_s

    def _draw(self) -> Delivery:
        rates, random = self._rates, self._rng.random
        there = self._way()
        if not self._faulty:
            return Delivery("fine", (there,), there + self._way())
        error_s = random() * rates.error_s
        if self.down(self._loop.time()):
            return Delivery("outage", (), error_s, answered=False)
        fates: tuple[tuple[float, Callable[[], Delivery]], ...] = (
            (rates.drop, lambda: Delivery("drop", (), error_s, answered=False)),
            (rates.lose, lambda: Delivery("lose", (there,), there + error_s, answered=False)),
            (rates.late, lambda: Delivery("late", (error_s + self._pause(),), error_s, answered=False)),
            (rates.twice, lambda: self._twice(there)),
            (rates.stall, lambda: self._stall(there)),
        )
        fate = random()
        for rate, make in fates:
            if fate < rate:
                return make()
            fate -= rate
        return Delivery("fine", (there,), there + self._way())

    def _pause(self) -> float:
        return self._rng.random() * (self._rates.late_s - self._rates.error_s)

    def _twice(self, there: float) -> Delivery:
        again = there + self._pause()
        return Delivery("twice", (there, again), again + self._way())

    def _stall(self, there: float) -> Delivery:
        hang = self._rng.random() * self._rates.stall_s
        executed = there if self._rng.random() < 0.5 else there + hang
        return Delivery("stall", (executed,), there + hang + self._way())


class _Exchange:
    """One call under way."""

    def __init__(
        self,
        network: Network,
        driver: Driver,
        sender: str,
        operation: ops.Operation[Any],
        answered: asyncio.Future[tuple[Any, Exception | None]],
    ) -> None:
        self._network = network
        self._driver = driver
        self._sender = sender
        self._operation = operation
        self._result: tuple[Any, Exception | None] | None = None
        self.answered = answered

    def execute(self) -> None:
        """At the store, unless it is down by now."""
        if self._network.closed or self._network.down(self._network.now_s()):
            return
        try:
            answer = self._driver.run(self._operation)
        except Exception as error:  # noqa: BLE001 - handed to the caller, if the answer reaches it
            self._result = None, error
            return
        self._result = answer, None
        self._network.happened(self._sender, self._operation, answer)

    def reply(self, delivery: Delivery) -> None:
        """At the caller, who may have gone."""
        lost = not delivery.answered or self._result is None or self._network.down(self._network.now_s())
        if lost or self._result is None:
            self._result = None, StoreUnavailable(f"the store gave no answer: {delivery.fate}")
        if not self.answered.done():
            self.answered.set_result(self._result)


class FaultyDriver:
    """Any driver behind a `Network`. The store is called through `run`, so that it needs no thread."""

    def __init__(self, inner: Driver, network: Network, sender: str) -> None:
        self._inner = inner
        self._network = network
        self._sender = sender

    def run(self, operation: ops.Operation[R]) -> R:
        """Run now. Delays do not apply.

        Raises:
            StoreUnavailable: a fault.
        """
        return self._network.send_now(self._inner, self._sender, operation)

    async def arun(self, operation: ops.Operation[R]) -> R:
        """Run after the network's delay.

        Raises:
            StoreUnavailable: a fault.
        """
        return await self._network.send(self._inner, self._sender, operation)

    def wakeup(self, worker: str, queues: Sequence[str]) -> FaultyWakeup:
        """A hint that may be lost."""
        return self._network.wakeup()

    def describe(self) -> str:
        """The store's address, and that it is not to be trusted."""
        return f"{self._inner.describe()} behind a faulty network"

    def close(self) -> None:
        """Nothing of its own to close."""

    async def aclose(self) -> None:
        """Nothing of its own to close."""


class FaultyWakeup:
    """An event, rung in the order in which its waiters came."""

    def __init__(self, registry: dict[FaultyWakeup, None]) -> None:
        self._registry = registry
        self._event = asyncio.Event()

    def ring(self) -> None:
        """Wake the waiter."""
        self._event.set()

    async def wait(self, timeout: float) -> bool:
        """Until rung, at most `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True

    async def aclose(self) -> None:
        """Leave the registry."""
        self._registry.pop(self, None)
