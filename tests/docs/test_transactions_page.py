"""The examples of docs/transactions.md run, and print what stands beside their `print`s."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pymysql
import pytest
from psycopg import sql

from tests.transactions.callers import server

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "transactions.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
SAYS = re.compile(r"^ *print\(.*\)  # (.+)$", re.MULTILINE)  # in the order in which they run


@pytest.fixture
def databases(request: pytest.FixtureRequest, unique_name: str) -> Iterator[dict[str, Callable[[], str]]]:
    """Empty databases for examples that need a server, by the variable that names their URL."""
    with ExitStack() as cleanup:

        def postgres() -> str:
            url: str = request.getfixturevalue("postgres_url")
            connection = cleanup.enter_context(psycopg.connect(url, autocommit=True))
            name = sql.Identifier(unique_name)
            connection.execute(sql.SQL("create database {}").format(name))
            cleanup.callback(connection.execute, sql.SQL("drop database {} with (force)").format(name))
            return f"{url.rpartition('/')[0]}/{unique_name}"

        def mysql() -> str:
            url: str = request.getfixturevalue("mysql_url")
            connection = cleanup.enter_context(pymysql.connect(**server(url)))
            connection.query(f"create database {unique_name}")
            cleanup.callback(connection.query, f"drop database {unique_name}")
            return f"{url.rpartition('/')[0]}/{unique_name}"

        yield {"POSTGRES_URL": postgres, "MYSQL_URL": mysql}


@pytest.mark.parametrize("block", BLOCKS, ids=[f"block-{number}" for number, _ in enumerate(BLOCKS, 1)])
def test_the_examples_run(block: str, tmp_path: Path, databases: dict[str, Callable[[], str]]) -> None:
    (tmp_path / "example.py").write_text(block)
    urls = {variable: make() for variable, make in databases.items() if variable in block}
    ran = subprocess.run(
        [sys.executable, "-W", "error", "example.py"],
        cwd=tmp_path,
        env={**os.environ, **urls},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    says = SAYS.findall(block)
    assert says
    assert ran.stdout.splitlines() == says
