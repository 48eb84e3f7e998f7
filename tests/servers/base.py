"""Servers that tests may kill, freeze and restart, with all the processes they have made themselves."""

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil

from headrace.testing.servers import base
from headrace.testing.servers.base import ServerDied, free_port, run_unprivileged, unprivileged
from tests.waiting import wait_until

__all__ = ["Server", "ServerDied", "free_port", "private_directory", "run_unprivileged", "unprivileged"]

_OF = "-of"  # and the process that made a directory


@contextlib.contextmanager
def private_directory(prefix: str) -> Iterator[Path]:
    """A directory of the unprivileged user's own, thrown away at the end; if we are killed, by the next run."""
    remove_abandoned(prefix)
    with base.private_directory(f"{prefix}{_OF}{os.getpid()}") as directory:
        yield directory


def remove_abandoned(prefix: str) -> None:
    """Remove directories whose makers are dead, unless a server of theirs lives on in one."""
    for directory in Path(tempfile.gettempdir()).glob(f"{prefix}{_OF}*-*"):
        maker = directory.name.removeprefix(f"{prefix}{_OF}").partition("-")[0]
        if maker.isdigit() and not psutil.pid_exists(int(maker)) and not _lived_in(directory):
            shutil.rmtree(directory, ignore_errors=True)  # another process may be at it too


def _lived_in(directory: Path) -> bool:
    homes = [process.info["cwd"] for process in psutil.process_iter(["cwd"])]  # None where it may not be known
    return any(home and Path(home).is_relative_to(directory) for home in homes)


class Server(base.Server):
    """One server in a directory, and what can happen to it."""

    def stop(self) -> None:
        """Ask it to end, then insist. May be called twice."""
        if self.running:
            self.thaw()  # a frozen process would not hear the other signal
        super().stop()

    def kill(self) -> None:
        """SIGKILL: no goodbye, no last write, by none of its processes."""
        self.freeze()  # so that none of them acts on the death of another
        family = self._family()
        for member in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()
        super().kill()
        wait_until(lambda: all(map(_dead, family)), what="the end of the killed server")

    def freeze(self) -> None:
        """SIGSTOP: connections stay open and nothing is answered. On a busy machine a signal takes its time."""
        os.kill(self.pid, signal.SIGSTOP)
        family = self._family()
        for member in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.suspend()
        wait_until(lambda: all(map(_still, family)), what="the standstill of the frozen server")

    def thaw(self) -> None:
        for member in self._family():
            with contextlib.suppress(psutil.NoSuchProcess):
                member.resume()

    def _family(self) -> list[psutil.Process]:
        process = psutil.Process(self.pid)
        return [process, *process.children(recursive=True)]


def _still(process: psutil.Process) -> bool:
    try:
        return process.status() in {psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE}
    except psutil.NoSuchProcess:
        return True


def _dead(process: psutil.Process) -> bool:
    """A process that nobody has waited for yet is dead all the same."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
