"""What a worker notices beside the jobs it runs, as records: for logs, metrics and alerts.

A signal is told once, by the process that made it happen or found it: an operator's command, or one of the workers.
"""

from __future__ import annotations

import msgspec


class CircuitChanged(msgspec.Struct, frozen=True):
    """A circuit went from one state to another; see `headrace.core.circuit`."""

    circuit: str
    before: str
    after: str
    why: str
    by: str  # the worker that found it, or the operator


class WorkerLost(msgspec.Struct, frozen=True):
    """A worker's lease ran out while it held jobs, which have been given back."""

    worker: str
    jobs: tuple[str, ...]  # their ids
    by: str  # the worker that found it


class TaskHeld(msgspec.Struct, frozen=True):
    """Jobs of a task killed their workers too often under one version of its code: they are parked."""

    task: str
    version: str
    crashes: int
    by: str


class TaskFreed(msgspec.Struct, frozen=True):
    """Jobs of a task that was held run again, under another version or since an operator said so."""

    task: str
    version: str  # the one it was held under
    by: str


Signal = CircuitChanged | WorkerLost | TaskHeld | TaskFreed
