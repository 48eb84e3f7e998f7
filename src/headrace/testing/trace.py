"""What happened in a simulation, moment by moment, written out only when somebody reads it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from headrace.core import operations as ops
from headrace.core.registers import LookRegisters


class Event(NamedTuple):
    """One line: an operation with its answer, or a note."""

    at_s: float
    who: str
    what: ops.Operation[Any] | str
    answer: Any = None

    def __str__(self) -> str:
        text = self.what if isinstance(self.what, str) else _operation(self.what, self.answer)
        return f"{self.at_s:10.3f} s  {self.who:<12} {text}"

    @property
    def dull(self) -> bool:
        """An operation that found and changed nothing."""
        match self.what, self.answer:
            case ops.Claim(), ops.Claimed(jobs=jobs):
                return not jobs
            case ops.Beat(), ops.Beaten(lost=lost, cancel=cancel, released=released):
                return not (lost or cancel or released)
            case ops.Rescue(), ops.Rescued(jobs=rescued):
                return not rescued
            case ops.Prune(), ops.Pruned(failed=failed, more=more):
                return not (failed or more)
            case LookRegisters(), _:
                return True
        return False


def _operation(operation: ops.Operation[Any], answer: Any) -> str:
    name = type(operation).__name__.lower()
    match operation, answer:
        case ops.Enqueue(jobs=jobs), list():
            stored = (f"{job.id} ({job.task}) {one.status}" for job, one in zip(jobs, answer, strict=True))
            return f"{name} {', '.join(stored)}"
        case ops.Claim(number=number, limit=limit), ops.Claimed(jobs=claimed, more=more):
            taken = ", ".join(f"{job.id}@{job.token % 10**12}" for job in claimed)
            return f"{name} #{number} of {limit}: {taken or 'nothing'}{', more' if more else ''}"
        case ops.Settle(outcomes=outcomes), list():
            told = (
                f"{one.id}@{one.token % 10**12} {one.state.value}{f' ({one.reason})' if one.reason else ''}"
                f"{'' if taken else ' REFUSED'}"
                for one, taken in zip(outcomes, answer, strict=True)
            )
            return f"{name} {', '.join(told)}"
        case ops.Beat(held=held, open_claim=number), ops.Beaten(lost=lost, cancel=cancel, released=released):
            known, lost_ids, cancel_ids = ([one.id for one in some] for some in (held, lost, cancel))
            return f"{name} #{number} {known}: lost {lost_ids}, cancel {cancel_ids}, released {released}"
        case ops.Rescue(), ops.Rescued(jobs=rescued):
            told = (f"{one.id} from {one.worker}{' alone' if one.alone else ''}" for one in rescued)
            return f"{name} {', '.join(told) or 'nothing'}"
    return f"{operation!r}: {answer!r}"


class Trace:
    """Events in their order."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def lines(self, about: str = "", *, dull: bool = False) -> Iterator[str]:
        """The events as text; `about`: only those that name it; `dull`: also operations that found nothing."""
        for event in self.events:
            if dull or not event.dull:
                text = str(event)
                if about in text:
                    yield text
