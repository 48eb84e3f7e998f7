"""`headrace schema` on every SQL store: from each version that was released, with jobs in the tables, many at once."""

import importlib
import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy

from headrace import Headrace
from headrace.cli import run
from headrace.core import operations as ops
from headrace.core.once_records import LookOnce
from headrace.core.outbox import ViewOutbox
from headrace.core.registers import LookRegisters
from headrace.core.states import State
from headrace.errors import ConfigError
from headrace.migrations import latest, statements
from tests.cli.conftest import Result
from tests.contract.prefixes import connect

RELEASED = Path(__file__).parent / "released"
KINDS = {"sqlite": "sqlite", "postgres": "postgresql", "mysql": "mysql"}
KNOWN = latest("sqlite")
SECOND_US = 1_000_000

APP = """
import sys
from headrace import Headrace

app = Headrace("{url}", name="{name}")

@app.task(name="shop.mail")
def mail(order_id: int) -> None: ...

if __name__ == "__main__":
    number = 0
    while sys.stdin.readline():
        print(mail.enqueue(order_id=number), flush=True)
        number += 1
"""


@dataclass(frozen=True)
class Place:
    """An app of the test's own on an empty database, named by HEADRACE_APP."""

    url: str
    name: str
    database: str
    app: Headrace
    capture: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str) -> Result:
        """`headrace schema ...` in this process."""
        self.capture.readouterr()
        code = run(["schema", *arguments])
        captured = self.capture.readouterr()
        return Result(code, captured.out, captured.err)

    def check(self) -> dict[str, Any]:
        """What `check --json` says."""
        answer: dict[str, Any] = json.loads(self("check", "--json").out)
        return answer

    def sql(self, text: str) -> None:
        """Carry out a script on a connection of the test's own."""
        text = text.replace("headrace_", f"{self.name}_").replace(f"{self.name}_now", "headrace_now")
        if self.database == "sqlite":
            with closing(sqlite3.connect(self.url.removeprefix("sqlite:///"), timeout=10)) as file:
                file.executescript(text)
                file.commit()
            return
        with closing(connect(self.url)) as connection:
            if self.database == "postgresql":
                connection.execute(text)
            else:
                cursor = connection.cursor()
                for statement in text.strip().removesuffix(";").split(";\n\n"):
                    cursor.execute(statement)
            connection.commit()

    def release(self, version: int) -> None:
        """Make the tables as that version did, with what it left in them."""
        for number in range(1, version + 1):
            self.sql((RELEASED / self.database / f"{number}.sql").read_text())

    def drain(self) -> list[str]:
        """The ids of all jobs that a worker gets."""
        got: list[str] = []
        for claim in range(1, 1000):
            jobs = self.app.driver.run(ops.Claim("w", claim, ("default",), 100, 30 * SECOND_US)).jobs
            if not jobs:
                break
            got += [job.id for job in jobs]
        return got


@pytest.fixture(params=KINDS)
def place(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    unique_name: str,
) -> Iterator[Place]:
    url: str = request.getfixturevalue(f"{request.param}_url")
    (tmp_path / f"{unique_name}.py").write_text(APP.format(url=url, name=unique_name), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("HEADRACE_APP", f"{unique_name}:app")
    app: Headrace = importlib.import_module(unique_name).app
    yield Place(url, unique_name, KINDS[request.param], app, capsys)
    app.close()
    del sys.modules[unique_name]


def test_every_version_has_been_kept() -> None:
    for database in KINDS.values():
        assert sorted(int(path.stem) for path in (RELEASED / database).iterdir()) == [*range(1, latest(database) + 1)]
        assert latest(database) == KNOWN


@pytest.mark.parametrize("version", range(KNOWN + 1))
def test_an_upgrade_keeps_the_jobs_of_each_released_version(place: Place, version: int) -> None:
    place.release(version)
    before = place("check")
    assert before.code == (0 if version == KNOWN else 1)
    assert ("run headrace schema upgrade" in before.out) == (version < KNOWN)
    upgraded = json.loads(place("upgrade", "--json").out)
    assert (upgraded["before"], upgraded["version"], upgraded["known"]) == (version, KNOWN, KNOWN)
    again = place("upgrade")
    assert (again.code, again.out.strip().endswith(f"has version {KNOWN} of the schema")) == (0, True)
    assert place("check").code == 0
    new = place.app.tasks["shop.mail"].enqueue(order_id=1)
    assert place.drain() == (["of-version-1"] if version else []) + [new.id]
    assert place.app.outbox_driver.run(ViewOutbox()).pending == (1 if version > 1 else 0)
    record = place.app.driver.run(LookOnce("shop.charge", "charge:17"))
    assert (record and (record.state, record.owner, record.result)) == (
        ("done", "of-version-3", b"17") if version > 2 else None
    )
    registers = [(view.name, view.body) for view in place.app.driver.run(LookRegisters())]
    assert registers == ([("circuit:bank", b"{}")] if version > 3 else [])


@pytest.mark.parametrize("version", range(KNOWN + 1))
def test_the_printed_sql_does_what_upgrade_does(place: Place, version: int) -> None:
    place.release(version)
    printed = place("sql", "--from", str(version))
    assert printed.code == 0
    if version < KNOWN:
        place.sql(printed.out)
    assert place.check()["state"] == "current"
    place.app.tasks["shop.mail"].enqueue(order_id=1)
    assert len(place.drain()) == (2 if version else 1)
    told = json.loads(place("sql", "--json", "--to", "1").out)
    assert told["statements"] == statements(place.database, name=place.name, to_version=1)


def test_down_and_up_again_keeps_the_jobs(place: Place) -> None:
    place.release(KNOWN)
    refused = place("downgrade", "--to", "1")
    assert (refused.code, "--yes" in refused.err) == (1, True)
    assert "would lose 1 register, 1 once record, 1 event\n" in refused.out
    assert place.check()["version"] == KNOWN
    done = place("downgrade", "--to", "1", "--yes")
    assert (done.code, "has version 1 of the schema" in done.out) == (0, True)
    assert "deleted: 1 register, 1 once record, 1 event" in done.out
    assert place.check()["state"] == "older"
    assert place("downgrade", "--to", "1").out.strip().endswith("which is not above 1")
    assert place("upgrade").code == 0
    assert place.app.outbox_driver.run(ViewOutbox()).pending == 0
    assert place.drain() == ["of-version-1"]


def test_no_job_stays_parked_under_a_version_that_gives_none_back(place: Place) -> None:
    assert place("upgrade").code == 0
    job = place.app.tasks["shop.mail"].enqueue(order_id=1)
    (claimed,) = place.app.driver.run(ops.Claim("v", 1, ("default",), 1, 30 * SECOND_US)).jobs
    parked = ops.Outcome(claimed.id, claimed.queue, claimed.token, State.PARKED, reason="circuit smtp")
    assert place.app.driver.run(ops.Settle("v", (parked,))) == [True]
    assert place("downgrade", "--to", "3").code == 0
    assert place("upgrade").code == 0
    assert place.drain() == [job.id]


def test_no_job_is_lost_unasked(place: Place) -> None:
    place.release(1)
    refused = json.loads(place("downgrade", "--to", "0", "--json").out)
    assert (refused["version"], refused["lost"]) == (1, {"jobs": 1})
    assert place("downgrade", "--to", "0", "--yes").code == 0
    assert (place.check()["version"], place.check()["state"]) == (0, "older")
    job = place.app.tasks["shop.mail"].enqueue(order_id=1)  # the first use makes the tables anew
    assert place.drain() == [job.id]


def test_an_empty_schema_goes_without_asking(place: Place) -> None:
    assert place("upgrade").code == 0
    assert place("downgrade", "--to", "0").code == 0
    assert place.check()["version"] == 0


def test_a_newer_schema_says_who_may_use_it(place: Place) -> None:
    """Old workers run on during a deploy, unless the newer schema says that they must not."""
    place.release(1)
    place.sql("update headrace_meta set value = '99' where name = 'schema';")
    newer = place("check")
    assert (newer.code, "it may be used all the same" in newer.out) == (1, True)
    assert place.check()["state"] == "newer"
    assert place("upgrade").code == 0
    assert place.check()["version"] == 99
    assert place.drain() == ["of-version-1"]
    down = place("downgrade", "--to", "0", "--yes")
    assert (down.code, "downgrade it with the headrace that upgraded it" in down.err) == (3, True)
    place.sql("update headrace_meta set value = '99' where name = 'oldest';")
    assert "only code that knows 99 can use it" in place("check").out
    refused = place("upgrade")
    assert (refused.code, f"needs code that knows 99, this headrace knows {KNOWN}" in refused.err) == (3, True)


def test_many_upgrades_at_once(place: Place) -> None:
    place.release(1)
    command = [sys.executable, "-W", "error", "-m", "headrace", "schema", "upgrade", "--json"]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(6)]
    ended = [(process, *process.communicate(timeout=60)) for process in running]
    assert [(process.returncode, err) for process, _, err in ended] == [(0, "")] * 6
    assert sorted(json.loads(out)["before"] for _, out, _ in ended).count(1) >= 1
    assert place.check()["state"] == "current"
    assert place.drain() == ["of-version-1"]


def test_an_upgrade_while_another_process_enqueues(place: Place) -> None:
    place.app.tasks["shop.mail"].enqueue(order_id=1)
    with subprocess.Popen(
        [sys.executable, "-W", "error", f"{place.name}.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as producer:
        assert producer.stdin is not None
        assert producer.stdout is not None
        producer.stdin.write("\n")
        producer.stdin.flush()
        sent = [producer.stdout.readline()]  # from now on it has looked at the schema, as an old process has
        for _ in range(5):
            producer.stdin.write("\n" * 40)
            producer.stdin.flush()
            assert place("downgrade", "--to", "1").code == 0
            assert place("upgrade").code == 0
            sent += [producer.stdout.readline() for _ in range(40)]
        producer.stdin.close()
    assert producer.returncode == 0
    assert place.check()["state"] == "current"
    assert len(set(sent)) == 201
    assert len(set(place.drain())) == 202


@pytest.mark.parametrize("place", ["postgres"], indirect=True)
def test_a_user_without_rights_needs_none_where_the_schema_is_current(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = f"u{place.name}"
    place.release(1)
    with psycopg.connect(place.url, autocommit=True) as owner:
        owner.execute(f"create role {user} login".encode())
        owner.execute(f"grant select, insert, update, delete on all tables in schema public to {user}".encode())
    poor = place.url.replace("headrace@", f"{user}@")
    Path(f"poor_{place.name}.py").write_text(APP.format(url=poor, name=place.name))
    monkeypatch.setenv("HEADRACE_APP", f"poor_{place.name}:app")
    refused = place("upgrade")
    assert (refused.code, "let the owner run `headrace schema upgrade`" in refused.err) == (3, True)
    assert place.check()["version"] == 1
    monkeypatch.setenv("HEADRACE_APP", f"{place.name}:app")
    assert place("upgrade").code == 0
    monkeypatch.setenv("HEADRACE_APP", f"poor_{place.name}:app")
    assert (place("upgrade").code, place("check").code) == (0, 0)
    with psycopg.connect(place.url, autocommit=True) as owner:
        owner.execute(f"drop owned by {user}; drop role {user}".encode())


@pytest.mark.parametrize("place", ["mysql"], indirect=True)
@pytest.mark.parametrize("after", range(1, 11))
def test_a_downgrade_that_was_left_half_done_is_no_harm(place: Place, after: int) -> None:
    """DDL commits by itself there: a crash may leave any number of its steps done."""
    assert place("upgrade").code == 0
    for statement in statements("mysql", name=place.name, from_version=KNOWN, to_version=0)[:after]:
        place.sql(statement)
    assert place("upgrade").code == 0
    job = place.app.tasks["shop.mail"].enqueue(order_id=1)
    assert place.drain() == [job.id]


def test_statements_go_through_the_migrations_of_others(place: Place) -> None:
    """As Alembic carries out a text: through SQLAlchemy, which reads `:name` as a parameter and `%` as it likes."""
    drivers = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql", "sqlite": "sqlite"}
    rest = place.url.partition("://")[2]
    engine = sqlalchemy.create_engine(f"{drivers[place.database]}://{rest}")
    for versions in ((0, KNOWN), (KNOWN, 0), (0, 1), (1, KNOWN)):
        with engine.begin() as connection:
            for statement in statements(
                place.database, name=place.name, from_version=versions[0], to_version=versions[1]
            ):
                connection.execute(sqlalchemy.text(statement))
        assert place.check()["version"] == versions[1]
    engine.dispose()
    job = place.app.tasks["shop.mail"].enqueue(order_id=1)
    assert place.drain() == [job.id]


def test_statements_lead_up_and_down() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in statements("sqlite", name="shop"):
            connection.execute(statement)
        assert connection.execute("select value from shop_meta where name = 'schema'").fetchone() == (KNOWN,)
        for statement in statements("sqlite", name="shop", from_version=KNOWN, to_version=1):
            connection.execute(statement)
        assert connection.execute("select value from shop_meta where name = 'schema'").fetchone() == (1,)
        for statement in statements("sqlite", name="shop", from_version=1, to_version=0):
            connection.execute(statement)
        assert connection.execute("select name from sqlite_master where name like 'shop%'").fetchall() == []
    assert statements("mariadb") == statements("mysql")
    assert statements("sqlite", from_version=KNOWN) == []


@pytest.mark.parametrize(
    ("database", "options", "words"),
    [
        ("redis", {}, "'redis' is no database"),
        ("sqlite", {"to_version": 99}, "no version 99 of the schema: use 0 to"),
        ("sqlite", {"from_version": -1}, "no version -1"),
        ("sqlite", {"name": "a-b"}, "is no table prefix"),
    ],
)
def test_statements_refuse_what_is_not_there(database: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        statements(database, **options)


def test_the_database_of_the_outbox_is_served_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], unique_name: str
) -> None:
    """The jobs may be where there is no schema, and the outbox where there is one."""
    source = 'from headrace import Headrace\napp = Headrace("memory://", outbox="sqlite:///shop.db")\n'
    (tmp_path / f"{unique_name}.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("HEADRACE_APP", f"{unique_name}:app")
    codes = [run(["schema", *words.split()]) for words in ("check --json", "upgrade", "check --json", "sql --json")]
    lines = capsys.readouterr().out.splitlines()
    assert codes == [1, 0, 0, 0]
    told = [json.loads(line) for line in lines if line.startswith("{")]
    assert [line.get("state") for line in told] == ["none", "older", "none", "current", None]
    assert told[-1]["database"] == "sqlite"
    del sys.modules[unique_name]
