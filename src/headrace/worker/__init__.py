"""Runs jobs: fetch, execute, settle, heartbeat, upkeep. `Worker` ties them together."""

from headrace.worker.options import WorkerOptions
from headrace.worker.runner import Exit, Worker

__all__ = ["Exit", "Worker", "WorkerOptions"]
