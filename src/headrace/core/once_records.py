"""Once records, as data: who may take effect under a key, and what the one who did has left.

A record is *held* or *done* (or *failed*, where failures are kept), and free when there is none, when its time is over,
or when its holder is gone. A job holds one exactly as long as its claim lives: the record names (id, token), and holds
while that job is running under that token. So a retry, a release, a crash or the end of the job frees it without a
write. Other holders have a lease. The fence grows with each new holder of a key, also after the record has gone: it is
the store's now in microseconds, or one more than the last one, and never 0.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from headrace.core.operations import OnceEnd, Operation

HELD_KEEP_US = 30 * 24 * 3600 * 1_000_000  # a record whose holder is gone is forgotten after this
FREE_KEEP_US = 24 * 3600 * 1_000_000  # one that was given back: keeps its fence until then


class OnceClaim(msgspec.Struct, frozen=True, gc=False):
    """Somebody who wants to take effect under a key. `fingerprint` is 32 bytes that name the call.

    A job claims for its claim (`owner` is its id, `queue` where it runs); others have a token of 0, a random
    `owner`, no queue, and a lease.
    """

    scope: str  # the task, or what else keeps keys apart
    key: str
    fingerprint: bytes
    owner: str
    token: int = 0
    queue: str = ""
    lease_us: int = 0


class OnceTaken(msgspec.Struct, frozen=True, gc=False):
    """`mine`: take effect. `done`, `failed`: an earlier one did, and left `result`. `held`: one is at it.

    `other`: the key stands for another call, whose fingerprint differs. `lease_us`: how long that holder's lease lasts
    yet, 0 for a job.
    """

    status: Literal["mine", "done", "failed", "held", "other"]
    fence: int
    result: bytes | None = None
    lease_us: int = 0


class TakeOnce(msgspec.Struct, Operation["list[OnceTaken]"], frozen=True):
    """Take the records that are free; answers stand in the order of `claims`. Repeating it repeats the answer.

    A call with another fingerprint is refused while the record is held or done. All claims are of jobs, or none is.
    """

    claims: tuple[OnceClaim, ...]


class RenewOnce(msgspec.Struct, Operation[bool], frozen=True):
    """Extend a lease, also one that is over while nobody has taken the record. False: it is not this owner's."""

    scope: str
    key: str
    owner: str
    lease_us: int


class EndOnce(msgspec.Struct, Operation[bool], frozen=True):
    """End a record that is held by a lease: store what came of it, or give it back. False: it is not this owner's.

    `free` leaves nothing but the fence. Repeating it is safe, and answers True again for what was stored.
    """

    owner: str
    end: OnceEnd


class OnceView(msgspec.Struct, frozen=True):
    """A record as an operator sees it. `until_us`: when it is forgotten."""

    state: Literal["held", "done", "failed", "free"]
    owner: str
    token: int
    fence: int
    until_us: int
    lease_until_us: int | None = None  # of a holder that is no job
    result: bytes | None = None


class LookOnce(msgspec.Struct, Operation["OnceView | None"], frozen=True):
    """One record, if it has not been forgotten. `held` also where its holder is gone but nobody has come since."""

    writes = False
    scope: str
    key: str
    queue: str = ""  # of the jobs that use it; "" for one held by a lease
