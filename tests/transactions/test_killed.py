"""A process that dies before its commit leaves nothing: no job, no key."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import Headrace
from tests.waiting import wait_until

PROGRAM = """
import signal, sys
from headrace import Headrace

url, place, name = sys.argv[1:]
app = Headrace(url, name=name)

@app.task(name="mail", unique="{order_id}")
def mail(order_id: int) -> None: ...

if url.startswith("sqlite"):
    import sqlite3
    connection = sqlite3.connect(place, isolation_level=None)
    connection.execute("begin immediate")
elif url.startswith("postgresql"):
    import psycopg
    connection = psycopg.connect(place)
else:
    import pymysql
    from urllib.parse import urlsplit
    parts = urlsplit(place)
    connection = pymysql.connect(host=parts.hostname, port=parts.port, user=parts.username,
        password=parts.password or "", database=parts.path.strip("/"))
print(mail.using(transaction=connection).enqueue(1).status, flush=True)
signal.pause()
"""


@pytest.fixture(params=["sqlite", "postgres", "mysql"])
def place(request: pytest.FixtureRequest) -> tuple[str, str]:
    if request.param == "sqlite":
        path: Path = request.getfixturevalue("sqlite_path")
        return f"sqlite:///{path}", str(path)
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url, url


@pytest.fixture
def app(place: tuple[str, str], unique_name: str) -> Iterator[Headrace]:
    app = Headrace(place[0], name=unique_name)
    app.jobs.queues()
    yield app
    app.close()


def test_a_kill_before_the_commit_leaves_nothing(app: Headrace, place: tuple[str, str], unique_name: str) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *place, unique_name], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "new\n"
    os.kill(program.pid, signal.SIGKILL)
    program.wait()
    program.stdout.close()

    @app.task(name="mail", unique="{order_id}")
    def mail(order_id: int) -> None:
        """Never run here."""

    # the server may take a moment to notice; until then the key is not free
    wait_until(lambda: mail.enqueue(1).status == "new", 20)
    assert len(app.jobs.list("ready").jobs) == 1
