"""What a worker's processes use, and how they are ended. Reads /proc, so Linux only."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path

PROC = Path("/proc")
MEBIBYTE = 2**20


def tree(root: int) -> list[int]:
    """The process and all its living descendants."""
    children: dict[int, list[int]] = {}
    for path in PROC.iterdir():
        if path.name.isdigit():
            with contextlib.suppress(OSError):  # it may end while it is looked at
                fields = _stat(int(path.name))
                if fields[0] != "Z":
                    children.setdefault(int(fields[1]), []).append(int(path.name))
    found, rest = [], [root]
    while rest:
        pid = rest.pop()
        found.append(pid)
        rest += children.get(pid, [])
    return found


def _stat(pid: int) -> list[str]:
    return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()


def memory(root: int) -> dict[str, float]:
    """Resident and proportional memory of the tree, in MiB."""
    total = {"Rss": 0.0, "Pss": 0.0}
    for pid in tree(root):
        with contextlib.suppress(OSError):
            for line in (PROC / str(pid) / "smaps_rollup").read_text().splitlines():
                name, _, rest = line.partition(":")
                if name in total:
                    total[name] += int(rest.split()[0]) / 1024
    return {"rss_mb": round(total["Rss"], 1), "pss_mb": round(total["Pss"], 1)}


def resident(pid: int) -> float:
    """Resident memory of one process in MiB; cheap enough to be sampled."""
    pages = int((PROC / str(pid) / "statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MEBIBYTE


def cpu_seconds(root: int) -> float:
    """Processor time that the tree has used."""
    ticks = 0
    for pid in tree(root):
        with contextlib.suppress(OSError):
            fields = _stat(pid)
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def kill(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL the worker and every process it started, all at once. It must lead its own session."""
    if process.poll() is None:
        for pid in tree(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
