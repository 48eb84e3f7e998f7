"""Processes that are started anew when they die, as systemd or Kubernetes would do it."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

RESTART_AFTER = 0.2  # seconds: a process that dies at its very start shall not spin


class Supervised:
    """One process, and its successors.

    `died(name, code)` is called, in a thread of its own, for each end that nobody asked for.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        died: Callable[[str, int], None],
    ) -> None:
        self.name = name
        self._command = command
        self._environment = environment
        self._log = log
        self._died = died
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._may_live = threading.Event()
        self._may_live.set()
        self._guard = threading.Lock()  # between "it died, start another" and "stop"
        self._keeper = threading.Thread(target=self._keep_alive, name=f"keeper of {name}", daemon=True)

    def start(self) -> None:
        """Start the process. May be done once."""
        self._start_process()
        self._keeper.start()

    def kill(self) -> None:
        """SIGKILL: the process cannot clean up, say goodbye, or finish anything."""
        with self._guard:
            if self._process is not None:
                self._process.kill()

    def hold_down(self) -> None:
        """SIGKILL, and no successor until `let_up`."""
        self._may_live.clear()
        self.kill()

    def let_up(self) -> None:
        """Start it again. May be called twice."""
        self._may_live.set()

    @property
    def pid(self) -> int | None:
        """Of the process that lives now."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def ask_to_stop(self) -> None:
        """SIGTERM, and no successor."""
        with self._guard:
            self._stopping.set()
            self._may_live.set()
            if self._process is not None and self._process.poll() is None:
                self._process.send_signal(signal.SIGTERM)

    def wait(self, deadline: float) -> int | None:
        """Wait for the end until `deadline` (time.monotonic), then kill. Return the exit code."""
        self.ask_to_stop()
        if self._process is None:
            return None
        try:
            return self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def _start_process(self) -> None:
        with self._guard, self._log.open("ab") as log:
            if self._stopping.is_set():
                return
            self._process = subprocess.Popen(
                self._command,
                env=dict(self._environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches the director alone, who stops the others in order
            )

    def _keep_alive(self) -> None:
        while (process := self._process) is not None:
            code = process.wait()
            if self._stopping.is_set():
                return
            self._died(self.name, code)
            self._stopping.wait(RESTART_AFTER)
            self._may_live.wait()
            self._start_process()
