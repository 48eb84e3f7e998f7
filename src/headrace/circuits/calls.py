"""A call outside of jobs, through a circuit: `with smtp.call():`, or `async with`."""

from __future__ import annotations

import logging
import secrets
import time
from types import TracebackType
from typing import Protocol, Self

from headrace.circuits.standings import Known, Standings
from headrace.core.circuit import REGISTERS, Admission, AskCircuit, ReportCalls, Result, Standing
from headrace.core.circuit_policy import CircuitPolicy
from headrace.core.ports import Clock, Driver
from headrace.core.registers import Amend
from headrace.drivers.system import this_process
from headrace.errors import CircuitOpen, StoreError, TaskError
from headrace.holding import NEVER, RENEWALS, renewed
from headrace.sending import refuse_in_loop

logger = logging.getLogger("headrace.circuits")

AGAIN_S = 1.0  # when to try again where probes are under way, or calls are let in at a pace


class Options(Protocol):
    """How calls are judged."""

    def result(self, error: BaseException | None, seconds: float) -> Result:
        """What a call of so many seconds tells of the dependency, by how it ended."""
        ...


class Around(Protocol):
    """What is needed of a circuit."""

    @property
    def name(self) -> str: ...
    @property
    def policy(self) -> CircuitPolicy | None: ...
    @property
    def options(self) -> Options: ...


class Permit:
    """A probe's place in a half-open circuit, renewed by the thread that renews once records."""

    def __init__(self, driver: Driver, ask: Amend, lease_us: int) -> None:
        self._driver = driver
        self._ask = ask
        self._pause_s = lease_us / RENEWALS / 1_000_000
        self.due = time.monotonic() + self._pause_s

    def renew(self) -> None:
        """Ask for it again."""
        self.due = time.monotonic() + self._pause_s
        try:
            self._driver.run(self._ask)
        except Exception as error:  # noqa: BLE001 - the call goes on; at worst one more is let in beside it
            logger.warning("the place of a probe could not be renewed: %s", error)

    def close(self) -> None:
        """Renew it no more."""
        self.due = NEVER


class CircuitCall:
    """One call: a context manager for `with` and `async with`.

    Where the store cannot be reached, calls are let in unless the circuit was open a moment ago: it is there to spare
    a dependency, and must not be one more.
    """

    def __init__(self, circuit: Around, driver: Driver, clock: Clock, standings: Standings, lease_us: int) -> None:
        self._circuit = circuit
        self._driver = driver
        self._clock = clock
        self._standings = standings
        self._lease_us = lease_us
        self._id = secrets.token_hex(8)
        self._entered = False
        self._generation: int | None = None  # None: it was let in unasked, and nobody is told what became of it
        self._permit: Permit | None = None
        self._begun_at = 0.0

    def __enter__(self) -> Self:
        refuse_in_loop("with circuit.call()", "async with circuit.call()")
        if not self._is_known():
            sent = self._clock.monotonic()
            try:
                answers = self._driver.run(self._asking())
            except StoreError as error:
                self._unasked(error)
            else:
                self._answered(answers[0], sent)
        self._begun_at = self._clock.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        report = self._report(error)
        if report is not None:
            sent = self._clock.monotonic()
            try:
                self._standings.learn(self._circuit.name, self._driver.run(report)[0], sent)
            except StoreError as lost:
                self._lost(lost)

    async def __aenter__(self) -> Self:
        if not self._is_known():
            sent = self._clock.monotonic()
            try:
                answers = await self._driver.arun(self._asking())
            except StoreError as error:
                self._unasked(error)
            else:
                self._answered(answers[0], sent)
        self._begun_at = self._clock.monotonic()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        report = self._report(error)
        if report is not None:
            sent = self._clock.monotonic()
            try:
                answers: list[Standing] = await self._driver.arun(report)
                self._standings.learn(self._circuit.name, answers[0], sent)
            except StoreError as lost:
                self._lost(lost)

    # -- what both have in common

    def _is_known(self) -> bool:
        """Whether the call may be made without asking.

        Raises:
            CircuitOpen: it may not be made.
        """
        if self._entered:
            raise TaskError("a block is entered once: call circuit.call() for each")
        self._entered = True
        known = self._standings.get(self._circuit.name)
        now = self._clock.monotonic()
        if known is not None and known.shuts(now):
            raise self._refused(known)
        if known is not None and known.lets_all_in(now):
            self._generation = known.standing.generation
            return True
        return False

    def _asking(self) -> Amend:
        circuit = self._circuit
        return Amend(
            (
                AskCircuit(
                    register=REGISTERS + circuit.name,
                    by=this_process(),
                    policy=circuit.policy,
                    calls=(self._id,),
                    lease_us=self._lease_us,
                ),
            )
        )

    def _answered(self, answer: Admission, sent: float) -> None:
        known = self._standings.learn(self._circuit.name, answer.standing, sent)
        if self._id not in answer.admitted:
            raise self._refused(known)
        self._generation = answer.standing.generation
        if answer.standing.state == "half_open":
            self._permit = Permit(self._driver, self._asking(), self._lease_us)
            renewed(self._driver, self._permit)

    def _unasked(self, error: StoreError) -> None:
        known = self._standings.get(self._circuit.name)
        if known is not None and known.is_open(self._clock.monotonic()):
            raise self._refused(known) from error
        logger.warning("circuit %s cannot be asked, so the call is made: %s", self._circuit.name, error)

    def _refused(self, known: Known) -> CircuitOpen:
        name, state = self._circuit.name, known.standing.state
        if state == "open":
            left = max(0.0, known.standing.wait_us / 1_000_000 - (self._clock.monotonic() - known.at))
            return CircuitOpen(f"the circuit {name!r} is open for {left:.1f} s more", max(left, 0.001))
        if state == "forced_open":
            return CircuitOpen(f"the circuit {name!r} was opened by hand", AGAIN_S)
        what = "is half-open, and its probes are under way" if state == "half_open" else "lets calls in at a pace"
        return CircuitOpen(f"the circuit {name!r} {what}", AGAIN_S)

    def _report(self, error: BaseException | None) -> Amend | None:
        """What to tell the store. None: nothing."""
        result = self._circuit.options.result(error, self._clock.monotonic() - self._begun_at)
        if self._permit is not None:
            self._permit.close()
        elif result == "none":
            return None
        if self._generation is None:
            return None
        circuit = self._circuit
        change = ReportCalls(
            register=REGISTERS + circuit.name,
            by=this_process(),
            policy=circuit.policy,
            request=self._id,
            generation=self._generation,
            calls=((self._id, result),),
        )
        return Amend((change,))

    def _lost(self, error: StoreError) -> None:
        # the block has taken effect, or has raised an error of its own, which says more
        logger.warning("what became of a call through circuit %s is not counted: %s", self._circuit.name, error)
