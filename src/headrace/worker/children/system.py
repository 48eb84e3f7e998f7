"""What the operating system does for and to child processes. Where it lacks a means, there is another one."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_OOM_SCORE = "500"  # of 1,000: a child goes long before the worker that holds many jobs


def leave_with(parent: int) -> None:
    """In a child: end when the worker does, even by SIGKILL and while the interpreter is stuck; Linux only.

    Elsewhere the end of the connection says so, to whoever still listens.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent and sys.platform != "win32":
        os._exit(0)  # it has gone before that


def stand_apart() -> None:
    """In a child: a session of its own, so that Ctrl-C does not reach it and its own children can be ended with it."""
    if hasattr(os, "setsid"):
        with contextlib.suppress(PermissionError):  # it leads one already
            os.setsid()


def offer_to_the_system() -> None:
    """In a child: should memory run out, rather this process than the worker."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE, "ascii")


def end_group(pid: int, number: int) -> None:
    """Send a signal to a child and all that it has started. One that has gone is no error."""
    # PermissionError: what macOS says of one that has ended and was not waited for yet
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            try:
                os.killpg(pid, number)
            except ProcessLookupError:  # it is just starting
                os.kill(pid, number)
        else:
            os.kill(pid, number)


def end_rest(pid: int) -> None:
    """Kill what a child that has just died has started: as long as any of that lives, nothing else has its number."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, kill_number())


def kill_number() -> int:
    """The signal that nothing can ignore."""
    return int(getattr(signal, "SIGKILL", signal.SIGTERM))


def identity(descriptor: int) -> tuple[int, int]:
    """What is open under this number, told from all else that is open; the same for all on Windows.

    Raises:
        OSError: nothing is.
    """
    if sys.platform == "win32":  # where sockets have numbers of their own
        return 0, 0
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def resident_bytes(pid: int) -> int:
    """Memory of a process that is in RAM; 0 where the system does not tell, or it has gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def how_it_ended(code: int | None) -> str:
    """An exit code in words: "exit code 3", "killed by SIGSEGV"."""
    if code is None:
        return "gone"
    if code >= 0:
        return f"exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"killed by {name}" + (", as when memory runs out" if name == "SIGKILL" else "")
