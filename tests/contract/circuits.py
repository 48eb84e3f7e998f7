"""Registers of the world, jobs that are parked for what stands in them, and every operation upon both."""

from collections.abc import Iterator
from typing import Any

from headrace.core import operations as ops
from headrace.core import trail
from headrace.core.circuit import AskCircuit, OfferCalls, ReportCalls, Result
from headrace.core.circuit_policy import CircuitPolicy
from headrace.core.parking import LookParked, ParkedFor, Unpark
from headrace.core.registers import Amend, LookRegisters, RegisterView
from headrace.testing.clock import MICROSECONDS
from headrace.testing.conformance import Harness
from headrace.testing.conformance.harness import LEASE
from headrace.testing.conformance.registers import Append, Erase

SMTP, BANK = "circuit smtp", "circuit bank"
PARKED = {"parked2": SMTP, "parked3": BANK, "parked4": SMTP}  # the last of them in q2
POLICY = CircuitPolicy(window=4, minimum=2, open_us=5 * MICROSECONDS, probes=2)
KEEP_US = 3600 * MICROSECONDS
OVER_US = 5 * MICROSECONDS  # over when the world is complete

EDIT = ops.Edit("failed2", "q1", b"body of failed2", b"edited", trail.encode(trail.Trail(attempts=2, errors=3)))


def fill(h: Harness) -> None:
    """One circuit that has closed calls in its window, one that has been open for long enough, and plain registers."""
    plain = [Append(register=f"plain {name}", text=b"a\x00", keep_us=KEEP_US) for name in ("one", "two", "three")]
    over = Append(register="plain over", text=b"a", keep_us=OVER_US)
    h.run(Amend((*plain, over, _report("smtp", "filled", "failed"), _report("bank", "filled", "failed", "failed"))))


def seen(run: Any, queues: tuple[str, ...]) -> tuple[list[RegisterView], list[ParkedFor]]:
    """All of it."""
    return run(LookRegisters()), run(LookParked(queues))


def _report(name: str, report: str, *results: Result) -> ReportCalls:
    calls = tuple((f"call {number}", result) for number, result in enumerate(results))
    return ReportCalls(register=f"circuit:{name}", by="alive", policy=POLICY, request=report, generation=1, calls=calls)


def operations(queues: tuple[str, ...]) -> Iterator[tuple[str, ops.Operation[object]]]:
    """Named instances; each class of operation at least once."""
    changes = (
        Append(register="plain one", text=b"b", keep_us=2 * KEEP_US),
        _report("smtp", "one more", "failed", "ok"),  # opens it
        AskCircuit(register="circuit:bank", by="alive", policy=POLICY, calls=("a", "b", "c"), lease_us=LEASE),
        OfferCalls(register="circuit:new", by="alive", policy=POLICY),
        Append(register="plain over", text=b"c"),
        Erase(register="plain two"),
        Erase(register="plain none"),
    )
    yield "amend registers", Amend(changes)
    yield "amend a register", Amend((_report("smtp", "one more", "failed"),))
    yield "look at registers", LookRegisters("circuit:")
    yield "unpark", Unpark(queues, SMTP, 100)
    yield "look at parked jobs", LookParked(queues)
    yield "edit", EDIT
