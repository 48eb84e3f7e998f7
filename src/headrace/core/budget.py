"""A retry budget, as a pure machine over a register: retries are at most a share of the first attempts.

A dependency that is in trouble gets fewer calls than usual, and not several times as many (the budget of Finagle and
gRPC). First attempts are counted when they have been made; retries are asked for before they are.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from headrace.core.durations import Duration, micros
from headrace.core.registers import Change, Changed
from headrace.errors import ConfigError

REGISTERS = "budget:"  # before "circuit:NAME" or "queue:NAME"
SLOTS = 10  # of a window, which moves on by one of them at a time
HEARD = 200  # requests that are known again
LONGEST_US = 24 * 3600 * 1_000_000
MOST = 1_000_000_000  # retries that are let in anyway


class RetryBudget(msgspec.Struct, frozen=True):
    """Within `window`, at most `minimum` retries and `share` of the first attempts more; the rest wait, unharmed.

    Args:
        share: of the first attempts; 0 to 10.
        window: seconds, a timedelta, or a text like "1m"; above 0, at most a day.
        minimum: retries that are let in anyway, so that a quiet task is not without any.

    Raises:
        ConfigError: one of these is out of range.
    """

    share: float = 0.2
    window: Duration = 60
    minimum: int = 10

    def __post_init__(self) -> None:
        if type(self.share) not in (int, float) or not 0 <= self.share <= 10:
            raise ConfigError(f"share is {self.share!r}: use a share of the first attempts, 0 to 10, such as 0.2")
        if not 0 < micros(self.window, "window") <= LONGEST_US:
            raise ConfigError(f"window is {self.window!r}: use more than 0 and at most a day")
        if type(self.minimum) is not int or not 0 <= self.minimum <= MOST:
            raise ConfigError(f"minimum is {self.minimum!r}: use a whole number from 0 to {MOST:,}")

    @property
    def window_us(self) -> int:
        """In microseconds."""
        return micros(self.window, "window")


class Slot(msgspec.Struct, frozen=True):
    """What happened in one part of the window. `number`: which, counted from the epoch."""

    number: int
    firsts: int = 0
    retries: int = 0


class Spending(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content of a budget's register, the oldest slot first. `heard`: requests and the answer to each."""

    slots: tuple[Slot, ...] = ()
    heard: tuple[tuple[str, int], ...] = ()

    def counted(self, number: int, firsts: int, retries: int) -> Spending:
        """With so many more in the slot of this moment."""
        *before, last = self.slots or (Slot(number),)
        if last.number < number:
            before, last = [*before, last], Slot(number)
        return replace(
            self, slots=(*before, replace(last, firsts=last.firsts + firsts, retries=last.retries + retries))
        )


class SpendRetries(Change, frozen=True, kw_only=True):
    """How many of `retries` may be made now? The answer is a number.

    `firsts`: first attempts that have been made meanwhile. `unused`: retries that were granted and not made.
    `request` is an id of its own: one that was heard before changes nothing, and has the same answer.
    """

    request: str
    budget: RetryBudget
    retries: int = 0
    firsts: int = 0
    unused: int = 0

    def apply(self, body: bytes | None, now_us: int) -> Changed:
        """Grant what the window has room for."""
        was = decode(body)
        known = dict(was.heard).get(self.request)
        if known is not None:
            return self._changed(body, known)
        window_us = self.budget.window_us
        slot_us = max(1, window_us // SLOTS)
        number = now_us // slot_us
        # a slot of the future is of a clock that was set back
        kept = tuple(slot for slot in was.slots if number - SLOTS < slot.number <= number)
        now = replace(was, slots=kept).counted(number, self.firsts, -self.unused)
        firsts, retries = (sum(getattr(slot, name) for slot in now.slots) for name in ("firsts", "retries"))
        room = int(self.budget.minimum + self.budget.share * firsts) - retries
        granted = max(0, min(self.retries, room))
        now = replace(now.counted(number, 0, granted), heard=(*was.heard, (self.request, granted))[-HEARD:])
        return self._changed(_encoder.encode(now), granted)

    def _changed(self, body: bytes | None, granted: int) -> Changed:
        return Changed(body, granted, 2 * self.budget.window_us)


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Spending)


def decode(body: bytes | None) -> Spending:
    """What is in a register; nothing where it cannot be read."""
    try:
        return _decoder.decode(body) if body else Spending()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Spending()
