"""The database servers of the harness: what they acknowledged outlives a kill, and they freeze as a whole."""

import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import psycopg
import pymysql
import pytest

from tests.servers import (
    MariaServer,
    PostgresServer,
    PostgresTemplate,
    Server,
    ServerDied,
    find_postgres_binaries,
    private_directory,
)
from tests.servers.base import _dead
from tests.waiting import wait_until


def connect(server: Server) -> Any:
    """A plain connection of the client library, in which each statement is its own transaction."""
    if isinstance(server, PostgresServer):
        return psycopg.connect(server.url, autocommit=True)
    url = urlsplit(server.url)
    return pymysql.connect(
        host=url.hostname,
        port=url.port or 0,
        user=url.username,
        password=url.password or "",
        database=url.path[1:],
        autocommit=True,
    )


def ask(server: Server, sql: str) -> list[Any]:
    with closing(connect(server)) as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall()) if cursor.description else []


@pytest.fixture(params=["postgres", "mariadb"])
def server(request: pytest.FixtureRequest) -> Server:
    factory: Callable[[], Server] = request.getfixturevalue(f"{request.param}_server_factory")
    return factory()


def start(server: Server) -> None:
    """So that an acknowledged commit outlives the process."""
    server.start(**{"innodb_flush_log_at_trx_commit": 2} if isinstance(server, MariaServer) else {})


def test_an_acknowledged_commit_outlives_a_kill(server: Server) -> None:
    start(server)
    port = server.port
    with closing(connect(server)) as connection:  # whose process of the server's must die as well
        ask(server, "create table t (a integer)")
        connection.cursor().execute("insert into t values (1)")
        family = psutil.Process(server.pid).children(recursive=True)
        server.kill()
    assert not server.running
    assert not server.answers()
    assert not [member for member in family if member.is_running() and member.status() != psutil.STATUS_ZOMBIE]
    server.restart()
    assert server.port == port
    assert ask(server, "select a from t") == [(1,)]


def test_a_frozen_server_answers_nobody_until_the_thaw(server: Server) -> None:
    start(server)
    with closing(connect(server)) as connection:
        server.freeze()
        assert not server.answers()
        server.thaw()
        wait_until(server.answers, what="the thawed server")
        connection.cursor().execute("select 1")  # those who were connected are so still


def test_a_server_is_stopped_twice_and_even_frozen(server: Server) -> None:
    start(server)
    with closing(connect(server)):  # it does not wait for its clients
        server.freeze()
        server.stop()
    server.stop()
    assert not server.running


def test_a_server_that_cannot_start_says_why(server: Server) -> None:
    with pytest.raises(ServerDied, match=r"no.such.setting"):
        server.start(no_such_setting=1)


class Impatient(PostgresServer):
    """Its user presses Ctrl-C while it starts."""

    def answers(self) -> bool:
        raise KeyboardInterrupt


def test_a_start_that_is_broken_off_leaves_no_server_behind(postgres_template: PostgresTemplate) -> None:
    with private_directory("postgres") as directory:
        server = Impatient(postgres_template, directory)
        with pytest.raises(KeyboardInterrupt):
            server.start()
        assert not server.running
        assert not [each for each in psutil.process_iter(["cwd"]) if each.info["cwd"] == str(directory)]


def test_a_setting_can_be_given(server: Server) -> None:
    server.start(max_connections=17)
    sql = "show max_connections" if isinstance(server, PostgresServer) else "select @@max_connections"
    assert str(ask(server, sql)[0][0]) == "17"


def test_a_taken_port_is_left_to_its_owner(server: Server) -> None:
    with socket.socket() as owner:
        owner.bind(("127.0.0.1", 0))
        server.port = owner.getsockname()[1]
        server.start()
        assert server.port != owner.getsockname()[1]
    assert server.answers()


def test_shared_servers_let_in_who_comes_by_their_url(
    postgres_server: PostgresServer, mariadb_server: MariaServer
) -> None:
    assert ask(postgres_server, "show fsync") == [("off",)]
    assert ask(mariadb_server, "select @@innodb_flush_log_at_trx_commit") == [(0,)]


def test_binaries_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_TEST_POSTGRES_BIN", "/usr/lib/postgresql/15/bin")
    assert find_postgres_binaries() == Path("/usr/lib/postgresql/15/bin")


ROOT = Path(__file__).resolve().parents[1]
LEFT = """
import subprocess, sys
from tests.servers import private_directory

with private_directory("left") as directory:
    lodger = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, cwd=directory)
    print(directory, lodger.pid, flush=True)
    input()
"""


def test_directories_of_the_killed_are_removed_by_the_next() -> None:
    """Once no server of theirs lives in one any more."""
    command = [sys.executable, "-c", LEFT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as maker:
        assert maker.stdout is not None
        place, lodger = maker.stdout.readline().split()
        left, server = Path(place.decode()), psutil.Process(int(lodger))
        with private_directory("left"):
            assert left.exists()  # its maker lives
        server.suspend()  # it would end with its maker's pipe
        maker.kill()
    with private_directory("left") as other:
        assert left.exists()  # somebody lives in it
        server.kill()
        wait_until(lambda: _dead(server))
        with private_directory("left"):
            assert not left.exists()
            assert other.exists()
