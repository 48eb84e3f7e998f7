"""What worker processes and the test that started them share: the store, a folder of gates, and a log of notes.

A handler notes what happens to it; a test waits for notes, and lets handlers go on by opening gates. Both are files,
so they work whatever becomes of the processes.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

import msgspec

from headrace import Headrace, current_job

VARIABLE = "HEADRACE_SCENE"
LONG = 90.0  # seconds after which a handler gives up waiting for its gate: longer than any test lasts


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Handed to worker processes in their environment."""

    url: str
    name: str
    folder: str
    lease: float
    heartbeat: float
    busy_timeout: float = 0.4
    faults: str = ""  # see faulty.py
    version: int = 2  # of the code: 1 does not know the newest task


class Scene:
    """One test's app, gates and notes."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.folder = Path(settings.folder)
        self.app = Headrace(
            settings.url,
            settings.name,
            lease=settings.lease,
            heartbeat=settings.heartbeat,
            busy_timeout=settings.busy_timeout,
            version=f"v{settings.version}",
        )
        self._notes = self.folder / "notes.jsonl"

    @classmethod
    def of_environment(cls) -> "Scene":
        """In a worker process."""
        return cls(msgspec.json.decode(os.environ[VARIABLE], type=Settings))

    def note(self, what: str, **more: Any) -> None:
        """Append one line about the running job; whole or not at all, even with a kill right after."""
        job = current_job()
        self.write(what, job=job.id, task=job.task, attempt=job.attempt, token=job.token, **more)

    def write(self, what: str, **more: Any) -> None:
        """Append one line."""
        line = json.dumps({"what": what, "pid": os.getpid(), "at": time.monotonic(), **more}) + "\n"
        handle = os.open(self._notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(handle, line.encode())
        finally:
            os.close(handle)

    def notes(self, what: str, **fields: Any) -> list[dict[str, Any]]:
        """Notes of a kind, oldest first, of which all `fields` are as given."""
        if not self._notes.exists():
            return []
        # a file may be read in pieces while a line is being appended: the last piece is no line yet
        *lines, _ = self._notes.read_text().split("\n")
        found = [json.loads(line) for line in lines]
        wanted = {"what": what, **fields}
        return [note for note in found if all(note.get(name) == value for name, value in wanted.items())]

    def open(self, gate: str) -> None:
        """Let everybody through who waits at `gate`, now and later."""
        (self.folder / f"gate-{gate}").touch()

    def shut(self, gate: str) -> None:
        """Let nobody through any more."""
        (self.folder / f"gate-{gate}").unlink()

    def is_open(self, gate: str) -> bool:
        """Whether somebody opened it."""
        return (self.folder / f"gate-{gate}").exists()
