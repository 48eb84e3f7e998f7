"""What statements read that run for every job: plans must not depend on when statistics were taken."""

import re
from collections.abc import Iterator
from itertools import pairwise

import pytest

from headrace.core import operations as ops
from headrace.drivers.paramstyle import names
from headrace.drivers.postgres import PostgresDriver
from headrace.drivers.postgres.address import PINS
from tests.process.postgres_jobs import open_driver, plain
from tests.process.redis_jobs import claim, enqueue, job

WAITING = """\
insert into {name}_jobs (id, queue, task, state, token, created_us, base_us, due_us, since_us, body)
select n::text, 'q', 'task', 'ready', 1, 1, 1, 1, 1, '' from generate_series(1, 20000) as n
"""


@pytest.fixture
def driver(postgres_url: str, unique_name: str) -> Iterator[PostgresDriver]:
    driver = open_driver(postgres_url, unique_name)
    driver.run(ops.Prepare())
    yield driver
    driver.close()


def plan_of(driver: PostgresDriver, url: str, name: str) -> str:
    """The plan of a statement on a connection like ours."""
    text = driver.store.sql[name]
    known = list(dict.fromkeys(names(text)))
    with plain(url) as connection:
        for setting, value in PINS.items():
            connection.execute("select set_config(%s, %s, false)", (setting, value))
        numbered = re.sub(r"(?<!:):([a-z_]+)", lambda match: f"${known.index(match[1]) + 1}", _plain(text))
        connection.execute(f"prepare statement as {numbered}".encode())
        rows = connection.execute(f"explain execute statement ({', '.join(['null'] * len(known))})".encode()).fetchall()
    return "\n".join(row[0] for row in rows)


def _plain(text: str) -> str:
    return re.sub(r"--[^\n]*", "", text)


@pytest.mark.parametrize("name", ["settle.succeed", "settle.succeed_once", "settle.settle", "settle.park", "once.take"])
def test_a_claim_is_ended_by_its_id_whatever_the_statistics(
    driver: PostgresDriver, postgres_url: str, unique_name: str, name: str
) -> None:
    """Statistics from when everything waited say that next to nothing runs: then all that runs is not read for each."""
    with plain(postgres_url) as connection:
        connection.execute(WAITING.format(name=unique_name).encode())
        connection.execute(f"analyze {unique_name}_jobs".encode())
    plan = plan_of(driver, postgres_url, name)
    assert f"{unique_name}_jobs_pkey" in plan
    assert f"{unique_name}_jobs_running" not in plan


HOT = {
    "claim": "take repeat",
    "enqueue": "one store look heard_of why promote",
    "settle": "succeed succeed_once settle park standing unlocked",
    "once": "take replace owned close renew end",
    "lease": "beat held bury",
    "operate": "finished holders replay",
    "parking": "unpark look",
    "registers": "found swap write",
    "outbox": "due rows hold put_off held publish put_back wake",
}


@pytest.mark.parametrize("state", ["new", "vacuumed", "drained"])
def test_no_statistics_of_empty_tables_make_a_statement_read_a_whole_one(
    driver: PostgresDriver, postgres_url: str, unique_name: str, state: str
) -> None:
    """A plan that was made while little was there serves a burst, until the next `analyze`. So each scan is bounded."""
    with plain(postgres_url) as connection:
        connection.autocommit = True
        if state == "drained":
            connection.execute(WAITING.format(name=unique_name).encode())
            connection.execute(f"delete from {unique_name}_jobs".encode())
        if state != "new":
            for table in ("jobs", "ended", "gone", "once", "registers", "queues", "workers", "outbox"):
                connection.execute(f"vacuum analyze {unique_name}_{table}".encode())
    often = [f"{file}.{name}" for file, names in HOT.items() for name in names.split()]
    read = {name: unbounded(plan_of(driver, postgres_url, name), unique_name) for name in often}
    assert {name: scans for name, scans in read.items() if scans} == {}


def unbounded(plan: str, name: str) -> list[str]:
    """Scans of our tables that no condition bounds; a look at an id in the index by time is none that does."""
    lines = plan.splitlines()
    scans = [pair for pair in pairwise([*lines, ""]) if "Scan" in pair[0] and f" on {name}_" in pair[0]]
    assert scans
    return [scan for scan, detail in scans if "Cond: " not in detail or f"{name}_ended_finished" in scan]


@pytest.mark.parametrize("when", ["", "01932c07-20"])
def test_many_jobs_go_in_among_others_and_only_those_that_are_known_exist(driver: PostgresDriver, when: str) -> None:
    """Two producers at the same time: their ids lie between each other's, and begin alike or not."""
    evens = [job(f"{when}{n:04}") for n in range(0, 400, 2)]
    odds = [job(f"{when}{n:04}") for n in range(1, 401, 2)]
    assert {answer.status for answer in driver.run(enqueue(*evens))} == {"new"}
    assert {answer.status for answer in driver.run(enqueue(*odds))} == {"new"}
    again = driver.run(enqueue(*[job(f"{when}0000x"), *odds[:150]]))
    assert [answer.status for answer in again] == ["new", *["exists"] * 150]
    assert len(driver.run(claim(1, 1000)).jobs) == 401
