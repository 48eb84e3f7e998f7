"""The same job twice, and one effect: `once=` end to end, on every store, with workers that are stopped and killed."""

import asyncio
import json
import logging
import signal
import sqlite3
from collections import Counter
from typing import Any

import msgspec
import pytest

from headrace import ConfigError, Fail, Fixed, Headrace, Once, Retry, State, current_job
from headrace.core.once import task_scope
from headrace.core.once_records import LookOnce
from headrace.core.operations import NewJob
from tests.cases.conftest import StartWorks
from tests.cases.running import Works, ended, failed, put, working
from tests.waiting import await_until, wait_until

HOUR = 3600.0
AGAIN = Retry(max_attempts=3, backoff=Fixed(0))


async def record(app: Headrace, task: str, key: str) -> Any:
    """The record of a task's key, as it stands."""
    return await app.driver.arun(LookOnce(task_scope(task), key, "default"))


async def test_a_job_that_is_dispatched_twice_takes_effect_once(app: Headrace) -> None:
    charged = []

    @app.task(name="charge", once="charge:{order_id}", keep=HOUR)
    async def charge(order_id: int) -> dict[str, int]:
        context = current_job()
        charged.append((order_id, context.once_key, context.fence))
        return {"charged": order_id}

    async with working(app, concurrency=5):
        jobs = [await charge.aenqueue(order_id=17) for _ in range(2)]
        jobs.append(await charge.aenqueue(order_id=18))
        infos = [await ended(app, job.id) for job in jobs]
        again = await ended(app, (await charge.aenqueue(order_id=17)).id)
    assert [info and info.state for info in [*infos, again]] == [State.SUCCEEDED] * 4
    assert sorted(number for number, *_ in charged) == [17, 18]
    assert {key for _, key, _ in charged} == {"charge:17", "charge:18"}
    assert again is not None
    assert (again.reason, again.counts["attempts"]) == ("done before", 0)
    view = await record(app, "charge", "charge:17")
    assert (view.state, json.loads(view.result)) == ("done", {"charged": 17})
    assert view.fence == next(fence for number, _, fence in charged if number == 17)
    told = await app.ajobs.once("charge", "charge:17")
    assert told == again.once
    assert (told.state, told.holder, told.fence, told.result) == ("done", view.owner, view.fence, {"charged": 17})


async def test_one_at_a_time_and_the_others_wait_without_an_attempt(app: Headrace) -> None:
    running, most, runs, go_on = 0, 0, 0, asyncio.Event()

    @app.task(once="k", keep=HOUR, retry=AGAIN)
    async def careful() -> None:
        nonlocal running, most, runs
        running, runs = running + 1, runs + 1
        most = max(most, running)
        await go_on.wait()
        running -= 1
        if runs == 1:
            raise ValueError("the first attempt fails, and its retry may have the key")

    async with working(app, concurrency=10):
        jobs = [await careful.aenqueue() for _ in range(5)]

        async def all_but_one_wait() -> bool:
            infos = [await app.ajobs.get(job.id) for job in jobs]
            return sum(info is not None and info.reason == "once key held" for info in infos) == 4

        await await_until(all_but_one_wait, 20)
        go_on.set()
        infos = [await ended(app, job.id, 30) for job in jobs]
    assert (most, runs) == (1, 2)
    assert [info and info.state for info in infos] == [State.SUCCEEDED] * 5
    attempts = Counter(info.counts["attempts"] for info in infos if info)
    assert attempts == {0: 4, 1: 1}
    assert sum(info.reason == "done before" for info in infos if info) == 4


async def test_the_fence_keeps_a_late_run_out_of_a_database_of_the_handlers(app: Headrace) -> None:
    """As docs/once.md has it: `update ... where fence < :fence`."""
    books = sqlite3.connect(":memory:", isolation_level=None)
    books.execute("create table accounts (id integer primary key, balance integer, fence integer)")
    books.execute("insert into accounts values (17, 100, 0)")
    fences = []

    def debit(fence: int) -> int:
        statement = "update accounts set balance = balance - 5, fence = :fence where id = 17 and fence < :fence"
        return books.execute(statement, {"fence": fence}).rowcount

    @app.task(once="debit:{account}", retry=AGAIN)
    async def debit_once(account: int) -> None:
        fences.append(current_job().fence)
        if len(fences) == 1:
            raise TimeoutError("this run wakes up once another one has been")
        assert debit(fences[1]) == 1
        assert debit(fences[0]) == 0

    async with working(app):
        assert await ended(app, (await debit_once.aenqueue(account=17)).id) is None
    assert books.execute("select balance, fence from accounts").fetchall() == [(95, fences[1])]
    books.close()


async def test_the_same_key_with_other_arguments_is_refused_loudly(
    app: Headrace, caplog: pytest.LogCaptureFixture
) -> None:
    amounts = []

    @app.task(once="charge:{order_id}")
    async def charge(order_id: int, amount: int) -> None:
        amounts.append(amount)

    async with working(app):
        await ended(app, (await charge.aenqueue(order_id=1, amount=5)).id)
        await ended(app, (await charge.aenqueue(amount=5, order_id=1)).id)
        other = await failed(app, (await charge.aenqueue(order_id=1, amount=6)).id)
    assert amounts == [5]
    assert (other.reason, other.history[-1].type) == ("once key reused", "OnceConflict")
    assert "'charge:1' stands for a call with other arguments" in other.history[-1].message
    assert any(line.levelno == logging.ERROR and "once key reused" in line.getMessage() for line in caplog.records)


async def test_a_failure_frees_the_key_or_is_kept_as_the_task_says(app: Headrace) -> None:
    runs: Counter[str] = Counter()

    @app.task(name="free", once="k", retry=1)
    async def free() -> None:
        runs["free"] += 1
        raise ValueError("declined")

    @app.task(name="keep", once=Once("k", failures="keep"), retry=AGAIN)
    async def keep() -> None:
        runs["keep"] += 1
        raise ValueError("declined")

    @app.task(name="fail", once=Once("k", failures="keep"))
    async def fail() -> None:
        runs["fail"] += 1
        raise Fail("no such card")

    async with working(app):
        infos = {name: [] for name in ("free", "keep", "fail")}
        for task in (free, keep, fail):
            for _ in range(2):
                infos[task.name].append(await failed(app, (await task.aenqueue()).id))
    assert runs == {"free": 2, "keep": 3, "fail": 1}
    first, second = infos["keep"]
    assert (first.counts["attempts"], second.counts["attempts"]) == (3, 0)
    assert (second.reason, second.history[-1].type) == ("ValueError", "ValueError")
    assert second.history[-1].message == "an earlier run under its once key has failed: declined"
    assert "no such card" in infos["fail"][1].history[-1].message


async def test_a_result_that_cannot_be_kept_does_not_undo_the_effect(
    app: Headrace, caplog: pytest.LogCaptureFixture
) -> None:
    runs = 0

    @app.task(name="odd", once="k")
    async def odd() -> object:
        nonlocal runs
        runs += 1
        return object()

    async with working(app):
        for _ in range(2):
            assert await ended(app, (await odd.aenqueue()).id) is None
    view = await record(app, "odd", "k")
    assert (runs, view.state, view.result) == (1, "done", None)
    assert sum("its result cannot be kept" in line.getMessage() for line in caplog.records) == 1


async def test_the_key_is_made_by_the_worker_where_the_producer_made_none(app: Headrace) -> None:
    """Another program has enqueued it, or an older version of this one. A key that hides itself is refused."""
    runs = []

    @app.task(name="charge", once="charge:{order_id}:{currency}")
    async def charge(order_id: int, currency: str = "EUR") -> None:
        runs.append(order_id)

    async with working(app):
        for n in range(2):
            await put(app, f"foreign-{n}", b'{"v":1,"id":"foreign-%d","task":"charge","args":{"order_id":1}}' % n)
            assert await ended(app, f"foreign-{n}") is None
        spaced = b'{ "v": 1, "id": "spaced", "task": "charge", "args": {"order_id": 1}, "once_key" : "charge:1:EUR" }'
        await put(app, "spaced", spaced)
        assert await ended(app, "spaced") is None
        assert await ended(app, (await charge.aenqueue(order_id=1)).id) is None
    assert runs == [1]


async def test_a_key_without_a_policy_still_counts(app: Headrace) -> None:
    """The worker's task has none (any more): what the message says holds, in an app without any such task, too."""
    runs = []

    @app.task(name="charge")
    async def charge(order_id: int) -> None:
        runs.append(order_id)

    body = b'{"v":1,"id":"%s","task":"charge","args":{"order_id":1},"once_key":"k"}'
    async with working(app):
        for id in (b"a", b"b"):
            await put(app, id.decode(), body % id)
            assert await ended(app, id.decode()) is None
        hidden = body.replace(b"once_key", b"once\\u005fkey") % b"c"
        await put(app, "c", hidden)
        assert (await failed(app, "c")).reason == "unreadable"
    assert runs == [1]


def test_jobs_of_such_a_task_stay_in_one_queue() -> None:
    app = Headrace("memory://")

    @app.task(queue="money", once="{n}")
    def charge(n: int) -> None: ...

    assert charge.using(queue="money", priority=3).queue == "money"
    with pytest.raises(ConfigError, match="jobs stay in one queue: 'money'"):
        charge.using(queue="other")
    job: NewJob = charge.call(7).job("id")
    assert msgspec.json.decode(job.body)["once_key"] == "7"


CHARGES = """
@app.task(name="charge", once="charge:{order_id}", keep=3600)
def charge(order_id: int) -> int:
    from headrace import current_job
    say("fence", current_job().fence)
    say("charging")
    if said("charging") == 1:
        open(os.environ["JOBS_SAID"] + ".held", "w").close()
        threading.Event().wait(30 if order_id == 1 else 4)
    say("charged")
    return said("charged")
"""


def fences(works: Works) -> list[int]:
    return [int(line.split()[1]) for line in works.said if line.startswith("fence")]


def ended_there(works: Works, id: str) -> str:
    def over() -> str:
        info = works.app.jobs.get(id)
        return info.state.value if info is not None and info.state is State.SUCCEEDED else ""

    return wait_until(over, 30, f"the end of {id}")


def test_a_holder_that_dies_is_replaced(works: StartWorks) -> None:
    """Killed between charge and report: its job runs again once rescued; another one with the key waits."""
    crew = works(CHARGES)
    charge = crew.app.tasks["charge"]
    first = charge.enqueue(order_id=1)
    doomed = crew.start()
    crew.wait_for("charging")
    second = charge.enqueue(order_id=1)
    doomed.kill()
    doomed.wait()
    crew.start()
    assert [ended_there(crew, job.id) for job in (first, second)] == ["succeeded"] * 2
    assert crew.said.count("charged") == 1
    assert fences(crew) == sorted(set(fences(crew)))
    assert len(fences(crew)) == 2


def test_a_holder_that_wakes_up_late_completes_nothing(works: StartWorks) -> None:
    """Frozen for longer than its lease: what it does then counts for nothing, and the fence tells whoever it asks."""
    crew = works(CHARGES)
    charge = crew.app.tasks["charge"]
    job = charge.enqueue(order_id=2)
    frozen = crew.start()
    crew.wait_for("charging")
    frozen.send_signal(signal.SIGSTOP)
    try:
        crew.start()
        assert ended_there(crew, job.id) == "succeeded"
        found = crew.app.driver.run(LookOnce(task_scope("charge"), "charge:2", "default"))
        assert found is not None
    finally:
        frozen.send_signal(signal.SIGCONT)
    crew.wait_for("charged", 2)
    crew._wait(lambda: "lease lost" in crew.log(0) or "another worker" in crew.log(0), 30, "the refusal")
    assert crew.app.driver.run(LookOnce(task_scope("charge"), "charge:2", "default")) == found
    assert found.fence == max(fences(crew))
    assert len(set(fences(crew))) == 2


async def test_a_key_that_cannot_be_made_or_stored_fails_its_own_job_only(app: Headrace) -> None:
    runs = []

    def key_of(n: int) -> str:
        if n == 13:
            raise ValueError("no key for 13")
        return f"k{n}"

    @app.task(name="charge", once=key_of)
    async def charge(n: int) -> None:
        runs.append(n)

    async with working(app, concurrency=10):
        for n in (1, 13, 2):
            await put(app, f"f{n}", b'{"v":1,"id":"f%d","task":"charge","args":{"n":%d}}' % (n, n))
        odd = b'{"v":1,"id":"odd","task":"charge","args":{"n":3},"once_key":"\\u0000\\ud800%s"}' % (b"x" * 3000)
        await put(app, "odd", odd)
        await put(app, "f4", b'{"v":1,"id":"f4","task":"charge","args":{"n":4}}')
        info = await failed(app, "f13")
        for n in (1, 2, 4):
            assert await ended(app, f"f{n}") is None
        strange = await ended(app, "odd")  # a store may well take it
    assert info.reason == "bad arguments"
    assert "its once key cannot be made" in info.history[-1].message
    assert "no key for 13" in info.history[-1].message
    assert sorted(set(runs) - {3}) == [1, 2, 4]
    assert strange is None or strange.state is State.FAILED
