"""What the ledger keeps of each job, and what it says of a promise that was broken."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from headrace.core import operations as ops
from headrace.core.states import LIVE, State
from headrace.core.trail import Trail

EMPTY = Trail()


class Violation(NamedTuple):
    """A broken promise."""

    at_s: float
    rule: str
    job: str
    text: str

    def __str__(self) -> str:
        return f"{self.at_s:10.3f} s  {self.rule}: job {self.job or '-'}: {self.text}"


class Entry(msgspec.Struct):
    """What must be true of one job in the store, as far as operations have told."""

    new: ops.NewJob
    state: State
    due_us: int
    token: int = 0  # of the last claim
    worker: str = ""
    claim: int = 0
    counts: Trail = EMPTY
    holds_key: bool = False
    cancel: bool = False
    reason: str = ""
    ends: int = 0
    ended_us: int = 0  # the last time, by the store's clock
    ended_s: float = 0.0  # and by the loop's
    replays: int = 0
    last_rescue: tuple[str, bool] = ("", False)  # from which worker, and whether it held nothing else

    @property
    def live(self) -> bool:
        """Whether it has not ended."""
        return self.state in LIVE
