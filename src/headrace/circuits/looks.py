"""How circuits stand, for people: records, and the questions that make them, which both colours run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from headrace.core import circuit
from headrace.core import operations as ops
from headrace.core.circuit import REGISTERS, Breaker, Transition, decode, shares
from headrace.core.circuit_policy import CircuitPolicy
from headrace.core.moments import aware
from headrace.core.parking import LookParked, ParkedFor
from headrace.core.registers import LookRegisters, RegisterView
from headrace.inquiries import Inquiry, registers

REASON = "circuit "  # before the name, in the reason of parked jobs


class CircuitInfo(msgspec.Struct, frozen=True):
    """How a circuit stands. `failed`, `slow`: shares of the calls of its window, or of its probes while half-open.

    An open one whose time is over is half-open as of the next call: `until` is then in the past.
    """

    name: str
    state: circuit.State
    since: datetime | None  # None: nobody has asked about it yet
    until: datetime | None  # of an open one
    calls: int
    failed: float
    slow: float
    probing: int  # calls of a half-open one that are under way
    parked: int  # jobs that wait for it
    policy: CircuitPolicy
    history: tuple[Transition, ...]  # the newest last
    entered: dict[circuit.State, int]  # how often it has come into each state: counters for a metric
    down_since: datetime | None = None  # when it first opened since it was last closed; None: it is closed
    down_why: str = ""  # and why it did


def look(name: str, policy: CircuitPolicy | None) -> Inquiry[CircuitInfo]:
    """One circuit."""
    register = REGISTERS + name
    views: list[RegisterView] = yield LookRegisters(register, limit=1)
    body = views[0].body if views and views[0].name == register else None
    parked = yield from _parked()
    return _info(name, decode(body, policy), parked)


def look_all(policies: Mapping[str, CircuitPolicy | None]) -> Inquiry[list[CircuitInfo]]:
    """Those of the code, and those that the store knows."""
    found: dict[str, bytes | None] = dict.fromkeys(policies)
    views = yield from registers(REGISTERS)
    found |= {view.name.removeprefix(REGISTERS): view.body for view in views}
    parked = yield from _parked()
    return [_info(name, decode(found[name], policies.get(name)), parked) for name in sorted(found)]


def _parked() -> Inquiry[list[ParkedFor]]:
    queues: list[ops.QueueView] = yield ops.Queues()
    names = tuple(queue.name for queue in queues if queue.parked)
    found: list[ParkedFor] = (yield LookParked(names, counting=True)) if names else []
    return found


def waiting(name: str, parked: Iterable[ParkedFor]) -> int:
    """How many of these jobs, which have been counted, wait for a circuit."""
    return sum(one.jobs or 0 for one in parked if one.reason == REASON + name)


def _info(name: str, breaker: Breaker, parked: Iterable[ParkedFor]) -> CircuitInfo:
    letters = breaker.results if breaker.state == "half_open" else breaker.window
    failed, slow = shares(letters)
    return CircuitInfo(
        name=name,
        state=breaker.state,
        since=aware(breaker.since_us) if breaker.since_us else None,
        until=aware(breaker.until_us) if breaker.state == "open" else None,
        calls=len(letters),
        failed=failed,
        slow=slow,
        probing=len(breaker.permits),
        parked=waiting(name, parked),
        policy=breaker.policy,
        history=breaker.history,
        entered=breaker.entered,
        down_since=aware(breaker.down_since_us) if breaker.down_since_us else None,
        down_why=breaker.down_why,
    )
