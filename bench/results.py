"""The results of one run: a JSON file, written anew after each measurement, so that an interruption loses little."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


class Results:
    """What has been measured so far. A file that exists is added to."""

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.path = path
        if path.exists():
            self.data: dict[str, Any] = json.loads(path.read_text())
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        self.data = {
            "machine": machine(),
            "commit": commit(),
            "date": time.strftime("%Y-%m-%d"),
            "began": time.strftime("%H:%M %Z"),
            "load": os.getloadavg()[0],
            "settings": settings,
            "variants": {},
        }

    def put(self, variant: str, **values: Any) -> None:
        """Add to a variant's results."""
        self.data["variants"].setdefault(variant, {}).update(values)
        self.data["ended"] = time.strftime("%H:%M %Z")
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(self.data, indent=1))
        part.replace(self.path)


def machine() -> dict[str, Any]:
    """What the figures hold for."""
    cpu = _field(Path("/proc/cpuinfo"), "model name") or platform.processor()
    memory = (_field(Path("/proc/meminfo"), "MemTotal") or "0").split()[0]
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "ram_gib": round(int(memory) / 2**20, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def _field(path: Path, name: str) -> str | None:
    for line in path.read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return None


def commit() -> str:
    """The commit that is measured; marked when the code differs from it."""
    found = _git("rev-parse", "--short=12", "HEAD")
    if not found:
        return "unknown"
    return found + (" with changes" if _git("status", "--porcelain", "--", "src", "bench/peers") else "")


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""
