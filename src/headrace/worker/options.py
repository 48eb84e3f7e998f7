"""The settings of one worker process."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import force_setattr

from headrace.core.durations import seconds
from headrace.errors import ConfigError
from headrace.options import checked_queue

COUNTS = ("concurrency", "threads", "processes", "max_jobs", "max_memory", "child_memory", "child_max_jobs")


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What `headrace work` accepts. Durations in seconds, memory in bytes."""

    queues: tuple[str, ...]
    weights: dict[str, float] | None = None  # None: strict order
    concurrency: int = 100  # jobs running at once
    threads: int | None = None  # threads for synchronous handlers; None: as many as `concurrency`
    max_stuck: int | None = None  # threads past their timeout before the worker recycles; None: `concurrency`
    processes: int | None = None  # child processes for tasks with run_in="process"; None: as many as there are CPUs
    soft_grace: float = 3.0  # from the end of a job's time in a child process to the end of that process
    child_memory: int | None = None  # a child process that grows beyond that is killed, and its job has crashed
    child_max_jobs: int | None = None  # a child process is replaced after that many
    grace: float = 25.0  # from the first signal to the moment unfinished jobs are handed back
    max_jobs: int | None = None  # recycle after that many
    max_age: float | None = None  # recycle after that long
    max_memory: int | None = None  # recycle when the process has grown beyond that
    burst: bool = False  # end as soon as nothing is ready, and nothing runs in this worker
    twice: bool = False  # run each handler twice, to test that it may be

    def __post_init__(self) -> None:
        if not self.queues:
            raise ConfigError("queues is empty: name at least one, or register a task")
        for queue in self.queues:
            checked_queue(queue)
        self._check_numbers()
        if self.max_age == 0:
            raise ConfigError("max_age is 0: it must be greater than 0")
        if self.child_memory is not None and not Path("/proc/self/statm").exists():
            raise ConfigError("child_memory is set, but this system does not tell how large a process is: leave it out")
        for queue, weight in (self.weights or {}).items():
            if weight <= 0:
                raise ConfigError(f"the weight of queue {queue!r} is {weight}: it must be greater than 0")

    def _check_numbers(self) -> None:
        for field in COUNTS:
            value = getattr(self, field)
            if value is not None and (type(value) is not int or value <= 0):
                raise ConfigError(f"{field} is {value!r}: it must be a whole number greater than 0")
        for field in ("grace", "soft_grace", "max_age"):
            value = getattr(self, field)
            if value is not None:
                force_setattr(self, field, seconds(value, field))

    @property
    def thread_limit(self) -> int:
        """Threads for synchronous handlers."""
        return min(self.threads or self.concurrency, self.concurrency)

    @property
    def process_limit(self) -> int:
        """Child processes."""
        return min(self.processes or usable_cpus(), self.concurrency)

    @property
    def stuck_limit(self) -> int:
        """Stuck threads that are put up with."""
        return self.concurrency if self.max_stuck is None else self.max_stuck


def usable_cpus() -> int:
    """Those that this process may use, where the system tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def parse_queues(queues: Sequence[str] | Mapping[str, float] | str) -> tuple[tuple[str, ...], dict[str, float] | None]:
    """Queues in strict order ("high,low") or weighted ("high:6,low:1", or a mapping).

    Raises:
        ConfigError: some have a weight and some have none, or a weight is not a number.
    """
    if isinstance(queues, Mapping):
        return tuple(queues), dict(queues)
    listed = queues.split(",") if isinstance(queues, str) else list(queues)
    for queue in listed:
        if not isinstance(queue, str):
            raise ConfigError(f"queues holds {queue!r}: use names of queues")
    parts = [part.strip() for part in listed if part.strip()]
    if not any(_has_weight(part) for part in parts):
        return tuple(dict.fromkeys(parts)), None
    if not all(_has_weight(part) for part in parts):
        raise ConfigError(f"queues is {','.join(parts)!r}: give every queue a weight, or none")
    weights = {part.rpartition(":")[0]: float(part.rpartition(":")[2]) for part in parts}
    return tuple(weights), weights


def _has_weight(part: str) -> bool:
    name, _, weight = part.rpartition(":")
    return bool(name) and weight.replace(".", "", 1).isdigit()
