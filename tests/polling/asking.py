"""An upstream for polls, whose answers are known beforehand, and when each query came."""

import asyncio
from typing import Any

from headrace import Pending


class Upstream:
    """Answers with `answers`, one after the other; the last one repeats. Errors are raised, verdicts returned."""

    def __init__(self, *answers: Any) -> None:
        self._answers = answers or (Pending("not yet"),)
        self._began = 0.0
        self.times: list[float] = []  # of each query, in seconds since `begin`

    def begin(self) -> None:
        """From now on time counts."""
        self._began = asyncio.get_running_loop().time()

    def now(self) -> float:
        """Seconds since `begin`, without the millisecond that an idle worker may oversleep."""
        return round(asyncio.get_running_loop().time() - self._began, 2)

    def ask(self) -> Any:
        """One query."""
        answer = self._answers[min(len(self.times), len(self._answers) - 1)]
        self.times.append(self.now())
        if isinstance(answer, OSError):
            raise answer
        return answer
