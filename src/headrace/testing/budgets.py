"""A retry budget in the simulator: how many retries begin within its window, held against the first attempts."""

from __future__ import annotations

from collections.abc import Callable

from headrace.core.budget import SLOTS, RetryBudget

SECOND = 1_000_000


class BudgetWatch:
    """Of the calls through a circuit. `lasts_s`: the longest that a run takes."""

    def __init__(self, broken: Callable[[str, str, str], None], lasts_s: float) -> None:
        self._broken = broken
        self._lasts_s = lasts_s
        self._firsts_s: list[float] = []
        self.retries_s: list[float] = []

    def called(self, job: str, budget: RetryBudget, now_s: float, late_s: float, *, is_retry: bool) -> None:
        """A call begins. What was let in may be `late_s` on its way."""
        if not is_retry:
            self._firsts_s.append(now_s)
            return
        self.retries_s.append(now_s)
        window_s = budget.window_us / SECOND
        # its last slot has only begun when it is counted, and what begins now was let in before
        retries = sum(at > now_s - window_s * (1 - 1 / SLOTS) + late_s for at in self.retries_s)
        # a first attempt is counted when it has ended
        firsts = sum(at > now_s - window_s - late_s - self._lasts_s for at in self._firsts_s)
        most = budget.minimum + int(budget.share * firsts)
        if retries > most:
            self._broken(
                "retry budget", job, f"is retry {retries} within {window_s:g} s, beside {firsts} first attempts"
            )
