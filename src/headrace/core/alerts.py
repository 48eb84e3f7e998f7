"""What the workers of an app agree on about alerts, as changes of registers: who sends one, who looks, what has failed.

Each change carries the id of whoever asks. An answer that was lost is given again to the same id.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from headrace.core.registers import NAME, Change, Changed

REGISTERS = "alert:"  # before the name of each alert's register
TURN = "alerting:turn"
FAILURES = "alerting:failures"
KEEP_US = 30 * 24 * 3600 * 1_000_000
LONGEST_US = 10 * 365 * 24 * 3600 * 1_000_000  # that an alert is not sent again, whatever its register says
HEARD = 200  # reports that are known again
MOST_SLICES = 2_000

B = TypeVar("B", bound=msgspec.Struct)


def register_of(rule: str, subject: str) -> str:
    """The name of the register of an alert: readable where it is short enough."""
    name = f"{REGISTERS}{rule}:{subject}"
    if len(name.encode()) <= NAME:
        return name
    return REGISTERS + blake2b(f"{rule}\0{subject}".encode(), digest_size=20).hexdigest()


# -- who sends it


class Told(msgspec.Struct, frozen=True):
    """The content of an alert's register: it was sent, and whether what it is about is still so."""

    rule: str
    subject: str
    by: str
    until_us: int  # not sent again before
    firing: bool = True
    ended_by: str = ""


class Taken(msgspec.Struct, frozen=True):
    """Whether whoever asked is the one to send it. `quiet_us`: how long nobody is."""

    mine: bool
    quiet_us: int
    now_us: int


class TakeAlert(Change, frozen=True, kw_only=True):
    """May I send this alert? The first one who asks in `cooldown_us` may. The answer is `Taken`."""

    rule: str
    subject: str
    by: str
    cooldown_us: int

    def apply(self, body: bytes | None, now_us: int) -> Changed:
        """Yes to the first, and to the same one again."""
        told = _decoded(_told, body)
        if told is not None and (told.by == self.by or now_us < told.until_us):
            return Changed(body, Taken(told.by == self.by, max(0, told.until_us - now_us), now_us), KEEP_US)
        told = Told(self.rule, self.subject, self.by, now_us + self.cooldown_us)
        keep_us = max(KEEP_US, self.cooldown_us)
        return Changed(_encoder.encode(told), Taken(mine=True, quiet_us=self.cooldown_us, now_us=now_us), keep_us)


class EndAlert(Change, frozen=True, kw_only=True):
    """What it was about is over. May I say so? One may, where the alert was sent. The answer is `Taken`."""

    by: str

    def apply(self, body: bytes | None, now_us: int) -> Changed:
        """Yes to the first since it was sent, and to the same one again."""
        told = _decoded(_told, body)
        if told is None:
            return Changed(body, Taken(mine=False, quiet_us=0, now_us=now_us))
        quiet_us = min(max(0, told.until_us - now_us), LONGEST_US)
        if not told.firing:
            return Changed(body, Taken(told.ended_by == self.by, quiet_us, now_us))
        ended = _encoder.encode(replace(told, firing=False, ended_by=self.by))
        return Changed(ended, Taken(mine=True, quiet_us=quiet_us, now_us=now_us), max(KEEP_US, quiet_us))


def firing(bodies: Sequence[bytes]) -> set[tuple[str, str]]:
    """(rule, subject) of those among the registers whose alert was sent and not ended."""
    found = (_decoded(_told, body) for body in bodies)
    return {(told.rule, told.subject) for told in found if told is not None and told.firing}


# -- who looks


class _Holder(msgspec.Struct, frozen=True):
    by: str
    until_us: int


class Turn(msgspec.Struct, frozen=True):
    """Whether it is theirs who asked to look at the queues."""

    mine: bool
    now_us: int


class TakeTurn(Change, frozen=True, kw_only=True):
    """Is it mine to look for all workers? Whoever has the turn keeps it by asking again within `lease_us`."""

    by: str
    lease_us: int

    def apply(self, body: bytes | None, now_us: int) -> Changed:
        """Yes to its holder, and to anybody once its lease is over."""
        holder = _decoded(_holder, body)
        # a lease that is longer than any is of a clock that was set back since
        if holder is not None and holder.by != self.by and 0 < holder.until_us - now_us <= self.lease_us:
            return Changed(body, Turn(mine=False, now_us=now_us), self.lease_us)
        mine = _encoder.encode(_Holder(self.by, now_us + self.lease_us))
        return Changed(mine, Turn(mine=True, now_us=now_us), self.lease_us)


# -- what has failed


class Failures(msgspec.Struct, frozen=True, array_like=True):
    """So many jobs of a task failed in a slice of time that began at `at_us`."""

    at_us: int
    queue: str
    task: str
    count: int


class _Book(msgspec.Struct, frozen=True):
    slices: tuple[Failures, ...] = ()
    heard: tuple[str, ...] = ()


class Failed(msgspec.Struct, frozen=True):
    """What has failed of late, as far as anybody has reported it."""

    now_us: int
    slices: tuple[Failures, ...]

    def within(self, window_us: int) -> list[Failures]:
        """Those of the last `window_us`."""
        return [one for one in self.slices if one.at_us > self.now_us - window_us]


class CountFailures(Change, frozen=True, kw_only=True):
    """Jobs that have failed since this worker's last report: (queue, task, how many). The answer is `Failed`.

    `report` is an id of its own: a report that was heard before is not counted again. What is older than `keep_us`
    is forgotten. Slices of `slice_us` are counted together.
    """

    report: str
    counts: tuple[tuple[str, str, int], ...]
    window_us: int
    slice_us: int

    def apply(self, body: bytes | None, now_us: int) -> Changed:
        """Add them to the slice that is now."""
        was = _decoded(_book, body) or _Book()
        book = _Book(tuple(one for one in was.slices if one.at_us > now_us - self.window_us), was.heard)
        if self.counts and self.report not in was.heard:
            book = _Book(self._added(book.slices, now_us), (*was.heard, self.report)[-HEARD:])
        after = body if book == was else _encoder.encode(book) if book.slices else None
        return Changed(after, Failed(now_us, book.slices), max(self.window_us, 3600 * 1_000_000))

    def _added(self, slices: tuple[Failures, ...], now_us: int) -> tuple[Failures, ...]:
        at_us = now_us - now_us % max(1, self.slice_us)
        sums = {(one.at_us, one.queue, one.task): one.count for one in slices}
        for queue, task, count in self.counts:
            sums[at_us, queue, task] = sums.get((at_us, queue, task), 0) + count
        return tuple(Failures(*key, count) for key, count in sorted(sums.items()))[-MOST_SLICES:]


_encoder = msgspec.json.Encoder()
_told = msgspec.json.Decoder(Told)
_holder = msgspec.json.Decoder(_Holder)
_book = msgspec.json.Decoder(_Book)


def _decoded(decoder: msgspec.json.Decoder[B], body: bytes | None) -> B | None:
    """None where there is nothing that can be read."""
    try:
        return decoder.decode(body) if body else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
