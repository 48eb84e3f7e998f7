"""When a worker should make room for a fresh process: jobs done, age, memory, stuck threads."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from headrace.errors import ConfigError
from headrace.worker.execute import Executor
from headrace.worker.shared import Shared

WATCH_S = 1.0


def resident_bytes() -> int:
    """Memory of this process that is in RAM; 0 where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


class Limits:
    """Watches one worker."""

    def __init__(self, shared: Shared, executor: Executor, recycle: Callable[[str], None]) -> None:
        self._shared = shared
        self._executor = executor
        self._recycle = recycle
        self._started_at = shared.monotonic()
        limit = shared.options.max_memory
        baseline = resident_bytes()
        if limit is not None and baseline >= limit:
            # refused, since recycling would never bring it below: one error instead of a restart loop (B115)
            raise ConfigError(f"max_memory is {limit:,} bytes, but the process starts with {baseline:,}: raise it")

    async def watch(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(WATCH_S)
            why = self.exceeded()
            if why:
                self._recycle(why)

    def exceeded(self) -> str:
        """Which limit is exceeded, in words; empty when none is."""
        options, executor = self._shared.options, self._executor
        taken = executor.finished + executor.running + executor.waiting
        if options.max_jobs is not None and taken >= options.max_jobs:
            # those that still run are drained: one that never ends must not keep the worker from fresh jobs
            return f"{taken} jobs taken (max_jobs {options.max_jobs})"
        if options.max_age is not None and self._shared.monotonic() - self._started_at >= options.max_age:
            return f"{options.max_age:.0f} s old (max_age)"
        if options.max_memory is not None and (resident := resident_bytes()) >= options.max_memory:
            return f"{resident:,} bytes resident (max_memory {options.max_memory:,})"
        if executor.too_many_stuck:
            return "too many threads are stuck past their timeout (max_stuck)"
        return ""
