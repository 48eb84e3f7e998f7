"""A server's process: started in the foreground, awaited until it answers, stopped by its process id."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

READY_WITHIN = 20.0  # seconds
STOP_WITHIN = 10.0
_PAUSE = 0.02
_TAIL = 2000


class ServerDied(Exception):
    """A server's process ended while it was being started, or did not answer."""


def free_port() -> int:
    """A loopback port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def unprivileged() -> dict[str, Any]:
    """How to start a process that refuses to run as root: as `nobody` then, as ourselves otherwise."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


@contextlib.contextmanager
def private_directory(prefix: str) -> Iterator[Path]:
    """A directory of the unprivileged user's own, thrown away at the end. Short: a socket's path has a limit."""
    directory = Path(tempfile.mkdtemp(prefix=f"{prefix}-"))  # not in a home or a test's, which are closed to others
    try:
        if owner := unprivileged():
            os.chown(directory, owner["user"], owner["group"])
        yield directory
    finally:
        shutil.rmtree(directory)


def run_unprivileged(command: Sequence[str | Path], directory: Path, given: str = "") -> None:
    """Run to the end there.

    Raises:
        ServerDied: it failed, with what it printed; or it took longer than a minute.
    """
    try:
        done = subprocess.run(
            command,
            input=given,
            cwd=directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=60,
            check=False,
            **unprivileged(),
        )
    except subprocess.TimeoutExpired as late:
        raise ServerDied(f"{command[0]} did not end within 60 s") from late
    if done.returncode != 0:
        raise ServerDied(f"{command[0]} ended with {done.returncode}:\n{done.stdout[-_TAIL:]}")


class Server:
    """One server in a directory. `start` may be called again after `stop` or `kill`: same port, same directory."""

    settings: ClassVar[dict[str, str]] = {}
    stop_signal = signal.SIGTERM
    own_session = False  # set it, and Ctrl-C in the terminal does not reach the server: whoever started it stops it

    def __init__(self, binary: Path, directory: Path) -> None:
        self.binary = binary
        self.directory = directory
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._config: dict[str, str] = {}

    @property
    def url(self) -> str:
        """The address, as `Headrace(url)` takes it."""
        raise NotImplementedError

    def answers(self) -> bool:
        """Whether it serves a client: false while it refuses, and while it still starts."""
        raise NotImplementedError

    def command(self, settings: dict[str, str]) -> list[str]:
        """The words that start it in the foreground, on its port and in its directory."""
        raise NotImplementedError

    def launch_options(self) -> dict[str, Any]:
        """More arguments of Popen."""
        return unprivileged()

    @property
    def log(self) -> Path:
        """What it prints."""
        return self.directory / "server.log"

    @property
    def pid(self) -> int:
        """The process id; AssertionError when the server is not running."""
        assert self.running, "the server is not running"
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether its process lives."""
        return self._process is not None and self._process.poll() is None

    def start(self, **config: str | int) -> Self:
        """Start, and return once it answers. `config` holds settings of the server's own, over `settings`.

        Raises:
            ServerDied: it does not run; the end of its log says why.
        """
        assert not self.running, "the server runs already"
        self._config = {**self.settings, **{name: str(value) for name, value in config.items()}}
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
            self._process.send_signal(self.stop_signal)
            try:
                self._process.wait(STOP_WITHIN)
            except subprocess.TimeoutExpired:
                self.kill()
                return
        self._process.wait()
        self._process = None

    def kill(self) -> None:
        """SIGKILL: no goodbye, no last write."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process = None

    def _launch(self) -> None:
        command = self.command(self._config)
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=self.own_session,
                **self.launch_options(),
            )
        try:
            self._await_answer()
        except BaseException:  # a server that nobody has got must not outlive its directory
            self.stop()
            raise

    def _await_answer(self) -> None:
        give_up = time.monotonic() + READY_WITHIN
        while not self._answers_or_died():
            if time.monotonic() > give_up:
                raise ServerDied(f"{self.binary} did not answer within {READY_WITHIN:g} s:\n{self._tail()}")
            time.sleep(_PAUSE)

    def _answers_or_died(self) -> bool:
        assert self._process is not None
        if (code := self._process.poll()) is not None:
            self._process = None
            raise ServerDied(f"{self.binary} ended with {code} instead of starting:\n{self._tail()}")
        return self.answers()

    def _tail(self) -> str:
        return self.log.read_text(errors="replace")[-_TAIL:]
