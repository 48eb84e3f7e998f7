"""PgBouncer from the system, before a PostgreSQL server: every transaction may get another session."""

import os
import shutil
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tests.servers.base import Server

_PLACES = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"))


def find_pgbouncer() -> Path | None:
    """The program, from PATH or where systems keep servers, else None."""
    found = shutil.which("pgbouncer", path=_PLACES)
    return Path(found) if found else None


class PgBouncerServer(Server):
    """One PgBouncer in transaction mode, with fewer sessions than its clients have connections."""

    settings: ClassVar[dict[str, str]] = {
        "pool_mode": "transaction",
        "default_pool_size": "4",
        "max_client_conn": "200",
    }

    def __init__(self, binary: Path, directory: Path, target: str) -> None:
        """`target` is the URL of the server behind it."""
        super().__init__(binary, directory)
        self._target = target

    @property
    def url(self) -> str:
        """As headrace takes it: hints are listened to at the server itself."""
        return f"{self.plain_url}?pgbouncer=1&listen={quote(self._target, safe='')}"

    @property
    def plain_url(self) -> str:
        """For a client that knows nothing of poolers."""
        return f"postgresql://client@127.0.0.1:{self.port}/jobs"

    def answers(self) -> bool:
        """Whether a client is let in."""
        try:
            psycopg.connect(self.plain_url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def command(self, settings: dict[str, str]) -> list[str]:
        here = {"listen_addr": "127.0.0.1", "listen_port": str(self.port), "unix_socket_dir": "", "auth_type": "any"}
        behind = " ".join(f"{name}='{value}'" for name, value in conninfo_to_dict(self._target).items())
        lines = ["[databases]", f"jobs = {behind}", "[pgbouncer]"]
        lines += [f"{name} = {value}" for name, value in (here | settings).items()]
        config = self.directory / "pgbouncer.ini"
        config.write_text("\n".join(lines) + "\n")
        config.chmod(0o644)
        return [str(self.binary), str(config)]
