"""Servers that tests may kill, freeze and restart, with all the processes they have made themselves."""

import contextlib
import os
import signal

import psutil

from headrace.testing.servers import base
from headrace.testing.servers.base import ServerDied, free_port, private_directory, run_unprivileged, unprivileged
from tests.waiting import wait_until

__all__ = ["Server", "ServerDied", "free_port", "private_directory", "run_unprivileged", "unprivileged"]


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
