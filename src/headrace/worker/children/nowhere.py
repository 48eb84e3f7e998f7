"""The store of an app whose jobs are in the memory of another process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from headrace.errors import ConfigError


class Nowhere:
    """Refuses every operation, in the place of a store that would take jobs which nobody ever runs."""

    def run(self, operation: Any) -> NoReturn:
        """Raises ConfigError."""
        raise ConfigError(
            f"{type(operation).__name__}: a child process does not see the jobs of memory://, which are in the process "
            "of the worker: use another store, such as sqlite:///jobs.db"
        )

    async def arun(self, operation: Any) -> NoReturn:
        """The same."""
        self.run(operation)

    def wakeup(self, worker: str, queues: Sequence[str]) -> NoReturn:
        """The same."""
        self.run(queues)

    def describe(self) -> str:
        """The address."""
        return "memory://"

    def close(self) -> None:
        """Nothing to close."""

    async def aclose(self) -> None:
        """Nothing to close."""
