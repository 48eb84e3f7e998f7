"""How the circuits stand, as far as this process has heard: whatever an answer of the store told last."""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from headrace.core.circuit import Standing, Transition
from headrace.signals import CircuitChanged

logger = logging.getLogger("headrace.circuits")

CLOSED_S = 0.1  # nobody asks about a closed circuit within so long after an answer
OPEN_S = 1.0  # nor about an open one, which an operator may close


class Known(msgspec.Struct, frozen=True):
    """One answer and when it came, in seconds of the monotonic clock."""

    standing: Standing
    at: float

    def lets_all_in(self, now: float) -> bool:
        """Whether calls may be made without asking."""
        return self.standing.lets_all_in and now - self.at <= CLOSED_S

    def shuts(self, now: float) -> bool:
        """Whether asking would be in vain."""
        return now - self.at <= OPEN_S and self.is_open(now)

    def is_open(self, now: float) -> bool:
        """Whether it is, unless an operator has closed it since."""
        standing = self.standing
        over = (now - self.at) * 1_000_000 >= standing.wait_us
        return standing.state == "forced_open" or (standing.state == "open" and not over)


class Standings:
    """By name of the circuit. Safe from any thread."""

    def __init__(self, monotonic: Callable[[], float], changed: Callable[[str, Transition], None]) -> None:
        """`changed` is called for each transition that an answer tells of: it was made by that very question."""
        self._monotonic = monotonic
        self._changed = changed
        self._known: dict[str, Known] = {}

    def learn(self, name: str, standing: Standing, sent: float) -> Known:
        """Take note of the answer to a question that was sent at `sent`. Answers may come out of order."""
        known = self._known.get(name)
        # a lower generation is an older answer, or that of a circuit which was forgotten meanwhile and begins anew
        if known is None or standing.generation >= known.standing.generation or sent >= known.at:
            known = self._known[name] = Known(standing, self._monotonic())
        for transition in standing.transitions:
            log(name, transition)
            self._changed(name, transition)
        return known

    def get(self, name: str) -> Known | None:
        """The last answer."""
        return self._known.get(name)


def log(name: str, transition: Transition) -> None:
    """One line for each transition: a warning where it opens by itself."""
    level = logging.WARNING if transition.after == "open" else logging.INFO
    logger.log(
        level,
        "circuit %s: %s, was %s: %s (by %s)",
        *(name, transition.after, transition.before, transition.why, transition.by),
        extra={"circuit": name},
    )


def change(name: str, transition: Transition) -> CircuitChanged:
    """What middleware hears of it, in the process that made it."""
    return CircuitChanged(name, transition.before, transition.after, transition.why, transition.by)
