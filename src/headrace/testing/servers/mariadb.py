"""MariaDB from the system, as a MySQL: no wheel carries a server of either."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import ClassVar

import pymysql  # type: ignore[import-untyped]

from headrace.testing.servers.base import Server, run_unprivileged

NAME, PASSWORD = "headrace", "secret"
_PLACES = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin", "/usr/libexec"))
_FIRST = f"""\
FLUSH PRIVILEGES;
CREATE DATABASE {NAME} CHARACTER SET utf8mb4;
CREATE USER {NAME} IDENTIFIED BY '{PASSWORD}';
GRANT ALL ON *.* TO {NAME} WITH GRANT OPTION;
"""
# A tenth of a second and 30 MB for an empty server. Nothing here has to outlive the machine's fall.
_SMALL = ("--innodb-log-file-size=8M", "--innodb-buffer-pool-size=32M", "--innodb-flush-method=nosync")


def find_mariadb() -> tuple[Path, Path] | None:
    """The server and the program that makes its first tables, from PATH or where systems keep servers, else None."""
    server = shutil.which("mariadbd", path=_PLACES) or shutil.which("mysqld", path=_PLACES)
    install = shutil.which("mariadb-install-db", path=_PLACES)
    return (Path(server), Path(install)) if server and install else None


class MariaTemplate:
    """A directory with an empty database and its user, made once and copied for each server."""

    def __init__(self, server: Path, install: Path, directory: Path) -> None:
        self.server = server
        self.data = directory / "data"
        first = directory / "first.sql"
        first.write_text(_FIRST)
        first.chmod(0o644)
        options = ["--auth-root-authentication-method=normal", "--skip-name-resolve", "--skip-test-db", *_SMALL]
        # Each server a directory of its own for these: one that starts clears away what it takes for left behind.
        words = ["--no-defaults", f"--datadir={self.data}", f"--tmpdir={directory}", f"--extra-file={first}", *options]
        run_unprivileged([install, *words], directory)


class MariaServer(Server):
    """One MariaDB. By default `kill` costs it the last second; not with `innodb_flush_log_at_trx_commit=2`."""

    settings: ClassVar[dict[str, str]] = {
        "innodb_flush_log_at_trx_commit": "0",
        "max_connections": "200",
        "skip_name_resolve": "ON",
        "performance_schema": "OFF",
    }

    def __init__(self, template: MariaTemplate, directory: Path) -> None:
        super().__init__(template.server, directory)
        run_unprivileged(["cp", "-Rp", template.data, directory / "data"], directory)

    @property
    def url(self) -> str:
        return f"mysql://{NAME}:{PASSWORD}@127.0.0.1:{self.port}/{NAME}"

    def answers(self) -> bool:
        """Whether a client is let in."""
        try:
            pymysql.connect(
                host="127.0.0.1", port=self.port, user=NAME, password=PASSWORD, connect_timeout=1, read_timeout=1
            ).close()
        except pymysql.OperationalError:
            return False
        return True

    def command(self, settings: dict[str, str]) -> list[str]:
        here = {
            "datadir": str(self.directory / "data"),
            "tmpdir": str(self.directory),
            "socket": str(self.directory / "socket"),
            "pid_file": str(self.directory / "pid"),
            "bind_address": "127.0.0.1",
            "port": str(self.port),
        }
        given = (f"--{name}={value}" for name, value in (here | settings).items())
        return [str(self.binary), "--no-defaults", *_SMALL, *given]
