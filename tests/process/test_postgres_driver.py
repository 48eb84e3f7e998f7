"""The driver among threads, loops, forks, poolers and processes; the schema; rows of other programs."""

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headrace import Headrace
from headrace.core import operations as ops
from headrace.core.states import State
from headrace.drivers.postgres import PostgresDriver
from headrace.drivers.postgres.address import PINS, parse
from headrace.drivers.postgres.arrays import literal
from headrace.errors import ConfigError, StoreError, StoreMisconfigured
from headrace.stores.postgres import PostgresStore
from tests.process.postgres_jobs import ask, open_driver, plain
from tests.process.redis_jobs import claim, drain, enqueue, job, settle
from tests.servers import PostgresServer
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def driver(postgres_url: str, unique_name: str) -> Iterator[PostgresDriver]:
    driver = open_driver(postgres_url, unique_name)
    yield driver
    driver.close()


# -- threads, loops, forks


def test_a_fork_opens_connections_of_its_own(driver: PostgresDriver) -> None:
    """B121: while other threads of the parent are using theirs."""
    over = threading.Event()
    answers: list[str] = []

    def busy() -> None:
        while not over.is_set():
            answers.append(driver.run(enqueue(job(f"parent {len(answers)}")))[0].status)

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        wait_until(lambda: len(answers) > 20)
        driver.run(ops.Queues())
        child = os.fork()
        if not child:
            signal.alarm(20)
            try:
                new = [driver.run(enqueue(job(f"child {n}")))[0].status for n in range(50)]
                os._exit(0 if new == ["new"] * 50 else 1)
            finally:
                os._exit(2)
        _, status = os.waitpid(child, 0)
    finally:
        over.set()
        thread.join()
    assert os.waitstatus_to_exitcode(status) == 0
    assert set(answers) == {"new"}
    assert len([id for id in drain(driver.run) if id.startswith("child")]) == 50


def test_each_loop_has_its_own_connections_and_a_closed_loop_keeps_none(postgres_url: str, unique_name: str) -> None:
    driver = open_driver(postgres_url, unique_name, f"application_name={unique_name}")
    count = "select count(*) from pg_stat_activity where application_name = %s"
    numbers = itertools.count()

    async def some() -> list[str]:
        answers = await asyncio.gather(*[driver.arun(enqueue(job(f"j{next(numbers)}"))) for _ in "ab"])
        return [answer[0].status for answer in answers]

    for _ in range(5):
        assert asyncio.run(some()) == ["new", "new"]  # never closed by anybody
    wait_until(lambda: ask(postgres_url, count, unique_name) <= 4)
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(lambda _: asyncio.run(some()), range(3))) == [["new", "new"]] * 3

    async def last() -> int:
        await driver.arun(ops.Queues())
        await driver.aclose()
        return len(driver._mine().loops)

    asyncio.run(last())
    wait_until(lambda: ask(postgres_url, count, unique_name) == 0)
    assert len(drain(driver.run)) == 16
    driver.close()


def test_a_process_that_closes_nothing_ends_quietly(postgres_url: str, unique_name: str) -> None:
    script = f"""
import asyncio
from headrace import Headrace
app = Headrace({postgres_url!r}, name={unique_name!r})
@app.task(name="t")
def t(n: int) -> None: ...
t.enqueue(1)
asyncio.run(t.aenqueue(2))
for n in range(3): t.enqueue(n)
"""
    ended = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    with Headrace(postgres_url, name=unique_name) as app:
        assert app.jobs.queues()[0].ready == 5


# -- several processes

WORK = """
import sys
from headrace.core import operations as ops
from headrace.core.states import State
from tests.process.postgres_jobs import open_driver
url, name, worker = sys.argv[1:]
driver = open_driver(url, name)
number = 0
while True:
    number += 1
    driver.run(ops.Rescue(("q",)))
    for job in driver.run(ops.Claim(worker, number, ("q",), 7, 1_000_000)).jobs:
        print(job.id, flush=True)
        assert driver.run(ops.Settle(worker, (ops.Outcome(job.id, "q", job.token, State.SUCCEEDED),))) != [None]
"""


def test_processes_that_are_killed_at_will_lose_nothing(
    driver: PostgresDriver, postgres_url: str, unique_name: str, tmp_path: Path
) -> None:
    """Four claim at once, and one after the other is killed; what they had is done by others, the rest once."""
    ids = [f"j{n}" for n in range(1500)]
    driver.run(enqueue(*[job(id) for id in ids]))
    files = [tmp_path / f"said{n}" for n in range(10)]

    def start(file: Path) -> "subprocess.Popen[bytes]":
        words = [sys.executable, "-c", WORK, postgres_url, unique_name, file.name]
        with file.open("wb") as out:
            return subprocess.Popen(words, stdout=out, cwd=ROOT)

    running = [start(file) for file in files[:4]]
    try:
        for file in files[4:]:
            wait_until(lambda: all(each.stat().st_size > 200 for each in files if each.exists()) or left(driver) == 0)
            victim = running.pop(0)
            victim.kill()
            victim.wait()
            running.append(start(file))
        wait_until(lambda: left(driver) == 0, 60)
    finally:
        for process in running:
            process.kill()
            process.wait()
    done = Counter(id for file in files if file.exists() for id in file.read_text().split())
    assert set(done) == set(ids)
    twice = [id for id, times in done.items() if times > 1]
    assert len(twice) <= 6 * 2  # a killed one may have said one that it could not settle any more


def left(driver: PostgresDriver) -> int:
    return sum(view.ready + view.running + view.scheduled for view in driver.run(ops.Queues()))


# -- poolers


@pytest.mark.parametrize("colour", ["sync", "async"])
async def test_behind_a_pooler_nothing_is_left_in_a_session(colour: str, postgres_url: str, unique_name: str) -> None:
    """B128: each transaction may find another session, so none may depend on what an earlier one did to its own."""
    driver = open_driver(postgres_url, unique_name, "pgbouncer=1&pool_size=1")

    async def run(operation: Any) -> Any:
        return await driver.arun(operation) if colour == "async" else await asyncio.to_thread(driver.run, operation)

    for n in range(8):
        await run(enqueue(job(f"a{n}"), job(f"b{n}", unique="k")))
        claimed = await run(claim(n + 1))
        assert len(claimed.jobs) == 2
        await run(settle(claimed.jobs[:1]))
        await run(settle(claimed.jobs[1:], State.FAILED))
        assert (await run(ops.Replay((claimed.jobs[1].id,)))).replayed
        assert await run(ops.Cancel(claimed.jobs[1].id)) == "cancelled"
    left_behind = [
        b"select count(*) from pg_prepared_statements",
        b"select count(*) from pg_locks where locktype = 'advisory'",
        b"select count(*) from pg_listening_channels()",
        f"select count(*) from pg_settings where source = 'session' and name = any ('{{{','.join(PINS)}}}')".encode(),
    ]
    if colour == "async":
        line = await driver._mine().loop_pool(driver).take()
        found = [await (await line.connection.execute(query)).fetchone() for query in left_behind]
        driver._mine().loop_pool(driver).put_back(line)
    else:
        sync_line = driver._mine().pool.take()
        found = [sync_line.connection.execute(query).fetchone() for query in left_behind]
        driver._mine().pool.put_back(sync_line)
    assert found == [(0,)] * 4
    await driver.aclose()


async def test_behind_a_pooler_the_wakeup_takes_the_way_round(postgres_url: str, unique_name: str) -> None:
    driver = open_driver(postgres_url, unique_name, "pgbouncer=1")
    deaf = driver.wakeup("w", ["q"])
    assert not await deaf.wait(0.05)
    await deaf.aclose()
    assert driver.address.listening() is None
    round_it = parse(f"{postgres_url}?pgbouncer=1&listen=postgresql%3A%2F%2Fme%40elsewhere%2Fjobs").listening()
    assert round_it is not None
    assert (round_it["host"], round_it["dbname"]) == ("elsewhere", "jobs")
    await driver.aclose()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("pgbouncer=perhaps", "pgbouncer is 'perhaps' in the URL"),
        ("timeout=0", "timeout is '0'"),
        ("pool_size=1.5", "pool_size is '1.5'"),
        ("listen=redis://there", "listen cannot be read"),
        ("no_such_option=1", "url cannot be read"),
    ],
)
def test_a_url_that_cannot_be_meant_is_refused(options: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse(f"postgresql://host/jobs?{options}")


def test_lists_become_array_literals() -> None:
    assert literal([]) == "{}"
    assert literal([None, None]) == "{NULL,NULL}"
    assert literal(["a", "NULL", "", None]) == '{"a","NULL","",NULL}'
    assert literal(['a"b', "c\\d", "{,}"]) == '{"a\\"b","c\\\\d","{,}"}'
    assert literal([1, None, -(2**63)]) == "{1,NULL,-9223372036854775808}"
    assert literal([True, False, None]) == "{t,f,NULL}"
    assert literal([b"\x00\xff", b"", None]) == '{"\\\\x00ff","\\\\x",NULL}'


# -- the schema


def test_many_processes_make_the_schema_once(postgres_url: str, unique_name: str) -> None:
    drivers = [open_driver(postgres_url, unique_name) for _ in range(8)]
    barrier = threading.Barrier(8)

    def prepare(driver: PostgresDriver) -> str:
        barrier.wait(10)
        driver.run(ops.Prepare())
        return str(driver.run(enqueue(job("a")))[0].status)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(prepare, drivers))
    assert sorted(answers) == ["exists"] * 7 + ["new"]
    for driver in drivers:
        driver.close()


def test_a_schema_that_is_there_needs_no_right_to_make_one(postgres_url: str, unique_name: str) -> None:
    user = f"u{unique_name}"
    with plain(postgres_url) as owner:
        owner.execute(f"create role {user} login".encode())
    as_user = postgres_url.replace("headrace@", f"{user}@")
    poor = open_driver(as_user, unique_name)
    with pytest.raises(StoreMisconfigured, match="let the owner run `headrace schema upgrade`"):
        poor.run(enqueue(job("a")))
    rich = open_driver(postgres_url, unique_name)
    rich.run(ops.Prepare())
    with plain(postgres_url) as owner:
        owner.execute(f"grant select, insert, update, delete on all tables in schema public to {user}".encode())
        owner.execute(f"grant usage on all sequences in schema public to {user}".encode())
    assert poor.run(enqueue(job("a")))[0].status == "new"
    assert drain(poor.run) == ["a"]
    poor.close()
    rich.close()
    with plain(postgres_url) as owner:
        owner.execute(f"drop owned by {user}; drop role {user}".encode())


def test_a_newer_schema_is_used_as_long_as_it_says_so(postgres_url: str, unique_name: str) -> None:
    """Old workers run on while a deploy is under way, and are told when they must not."""
    open_driver(postgres_url, unique_name).run(ops.Prepare())
    with plain(postgres_url) as other:
        other.execute(f"update {unique_name}_meta set value = '99' where name = 'schema'".encode())
    old = open_driver(postgres_url, unique_name)
    assert old.run(enqueue(job("a")))[0].status == "new"
    old.close()
    with plain(postgres_url) as other:
        other.execute(f"update {unique_name}_meta set value = '99' where name = 'oldest'".encode())
    older = open_driver(postgres_url, unique_name)
    with pytest.raises(StoreMisconfigured, match="has version 99 and needs code that knows 99"):
        older.run(enqueue(job("a")))
    older.close()


# -- what else is there


def test_rows_of_other_programs_hold_up_nobody(driver: PostgresDriver, postgres_url: str, unique_name: str) -> None:
    """Odd states, numbers at the ends of their ranges, nothing in it: ours run all the same."""
    driver.run(enqueue(job("1"), job("2")))
    with plain(postgres_url) as other:
        for id, state, token, body in (
            ("odd", "no such state", 1, b""),
            ("most", "ready", 2**63 - 1, b""),
            ("least", "ready", -(2**63), b"\x00\xff"),
            ("", "ready", 0, b""),
            ("running", "running", 5, b""),
            ("due", "scheduled", -5, b"{"),
        ):
            other.execute(
                f"insert into {unique_name}_jobs "
                "(id, queue, task, state, token, created_us, base_us, due_us, since_us, trail, body) "
                "values (%s, 'q', '', %s, %s, -1, -1, -1, -1, 'x', %s)".encode(),
                (id, state, token, body),
            )
    driver.run(enqueue(job("3")))
    claimed = driver.run(claim(1)).jobs
    assert {each.id for each in claimed} == {"1", "2", "3", "most", "least", "", "due"}
    outcomes = tuple(
        ops.Outcome(each.id, "q", each.token, State.READY if each.id == "most" else State.SUCCEEDED) for each in claimed
    )
    assert driver.run(ops.Settle("w", outcomes)) == [True] * 7
    assert [orphan.id for orphan in driver.run(ops.Rescue(("q",))).jobs] == ["running"]
    assert driver.run(ops.Get("odd")) is None
    assert {view.id for view in driver.run(ops.List(State.READY)).jobs} == {"most", "running"}
    assert driver.run(ops.Queues())[0].ready == 2


def test_the_doctor_reads_what_the_server_keeps(
    postgres_server_factory: Callable[[], PostgresServer], unique_name: str
) -> None:
    server = postgres_server_factory().start(synchronous_commit="off", fsync="on", track_counts="off")
    driver = open_driver(server.url, unique_name)
    driver.run(ops.Prepare())
    found = {finding.subject: finding for finding in driver.run(ops.Inspect())}
    assert (found["server"].level, found["role"].level) == ("ok", "ok")
    assert (found["durability"].level, found["dead rows"].level) == ("warning", "warning")
    assert "synchronous_commit is off" in found["durability"].text
    with plain(server.url) as other:
        other.execute(b"select pg_create_physical_replication_slot('forgotten', true)")
    found = {finding.subject: finding for finding in driver.run(ops.Inspect())}
    assert "forgotten" in found["replication slots"].text
    driver.close()


def test_a_long_transaction_of_somebody_else_does_not_make_each_claim_walk_over_the_dead(
    driver: PostgresDriver, postgres_url: str, unique_name: str
) -> None:
    """B129: how many rows the claims look at, not how long they take."""
    driver.run(ops.Prepare())
    with psycopg.connect(postgres_url) as old:
        old.execute(b"set transaction isolation level repeatable read")
        old.execute(b"select 1 from pg_class limit 1")
        heads = driver.store._heads  # type: ignore[attr-defined]
        for n in range(0, 3000, 1000):
            driver.run(enqueue(*[job(f"j{n + k}") for k in range(1000)]))
        first = driver.run(claim(1, 1000)).jobs
        heads.looked("v", {"q": (0, 1000)}, 0, 50_000_000)  # as if that look had been slow
        assert heads.floors("v", ["q"])[0][1] < 0  # once may be chance
        for _ in range(2):
            heads.looked("w", {"q": (0, 1000)}, 0, 50_000_000)
        assert heads.floors("w", ["q"]) == [(0, 1000)]
        driver.run(enqueue(job("urgent", priority=5)))
        second = driver.run(claim(2, 1000)).jobs
        assert not {each.id for each in first} & {each.id for each in second}
        heads.forget("w")
        assert driver.run(claim(3, 1)).jobs[0].id == "urgent"
        assert len(driver.run(claim(4, 2000)).jobs) == 1000
        assert heads.floors("w", ["q"])[0][1] < 0  # a look that finds the end of the line is followed by a whole one


def test_a_key_that_never_stays_long_enough_is_an_error_in_the_end() -> None:
    """A plan gives up instead of looking for ever."""
    plan = PostgresStore().plan(enqueue(job("a", unique="k")))
    steps = [next(plan)]

    def answer_for_ever() -> None:
        answers = itertools.cycle([[(1, 0, None, None)], [("a", "q", False, None)]])
        steps.extend(map(plan.send, answers))

    with pytest.raises(StoreError, match="changes hands too quickly"):
        answer_for_ever()
    assert steps[0] == next(iter(PostgresStore().plan(enqueue(job("a", unique="k")))))
