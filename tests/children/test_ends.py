"""Child processes that die, overrun their time, are cancelled or grow: what it costs their job, and nobody else."""

import logging
import os
import random
import signal
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headrace.jobinfo import JobInfo
from headrace.worker import Worker
from tests.children import jobs
from tests.children.jobs import app
from tests.children.test_runs import lines
from tests.waiting import await_until
from tests.worker.working import ended, state_of, working


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "said")


def gone(pid: str | int) -> bool:
    """Whether a process has ended. Nobody may have waited for it."""
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text("ascii").rpartition(")")[2].split()[0] == "Z"


def crashes(job: JobInfo) -> list[tuple[str, str, str]]:
    return [(entry.kind, entry.type, entry.message) for entry in job.history]


# -- deaths


async def test_a_death_costs_its_job_one_crash_and_is_named(path: str) -> None:
    """B007: by a signal, by the handler's own hand, by the system: tried again, and then it succeeds."""
    named = {
        "exit": "exit code 3",
        "segfault": "killed by SIGSEGV",
        "kill": "killed by SIGKILL, as when memory runs out",
    }
    async with working(app, processes=2):
        ids = {how: (await jobs.die.aenqueue(path, how, 1)).id for how in named}
        for how, id in ids.items():
            job = await ended(app, id, "succeeded")
            assert crashes(job) == [("crash", "ChildLost", named[how])]
            assert (job.counts["crashes"], job.counts["attempts"]) == (1, 0)


async def test_what_a_job_has_started_does_not_outlive_its_death(path: str) -> None:
    """Else it would go on beside the next attempt."""
    async with working(app, processes=1):
        await ended(app, (await jobs.desert.aenqueue(path)).id, "failed")
        ((pid,),) = lines(path)
        await await_until(lambda: gone(pid))


async def test_a_death_is_noticed_where_its_signal_is_ignored(path: str, request: pytest.FixtureRequest) -> None:
    """As a worker inherits it from some of those that start it: the system tells nobody then how a child has ended."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    request.addfinalizer(lambda: signal.signal(signal.SIGCHLD, before))
    async with working(app, processes=1):
        job = await ended(app, (await jobs.die.aenqueue(path, "exit", 1)).id, "succeeded")
        assert crashes(job) == [("crash", "ChildLost", "gone")]


async def test_where_there_is_no_thread_no_attempt_is_made(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name.endswith("-keeper"):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    async with working(app, processes=1):
        job = await ended(app, (await jobs.note.aenqueue(path, "x")).id, "scheduled")
    assert (job.counts["attempts"], job.counts["crashes"], job.counts["releases"]) == (0, 0, 1)


async def test_a_job_that_keeps_killing_is_convicted(path: str) -> None:
    """B020: its last crash fails it, under the reason that names it; the slot serves others, the worker lives on."""
    async with working(app, processes=1, concurrency=1) as worker:
        id = (await jobs.die.aenqueue(path, "exit", 99)).id
        job = await ended(app, id, "failed")
        await ended(app, (await jobs.quick.aenqueue()).id, "succeeded")
        assert worker.executor.running == 0
    assert (job.reason, job.counts["crashes"], job.counts["attempts"]) == ("crashed", 2, 0)
    assert crashes(job) == [("crash", "ChildLost", "exit code 3")] * 2
    assert len(lines(path)) == 2


async def test_whoever_spoils_the_connection_to_the_worker_does_not_hold_its_slot() -> None:
    """Its answer never comes, or is lost among others' bytes; without a timeout it would be waited for for ever."""
    named = {
        "write": "it wrote into its connection to the worker",
        "close": "exit code 0",
        "replace": "exit code 0",
        "end": "its connection to the worker was closed inside of it",
    }
    async with working(app, processes=1):
        for how, message in named.items():
            job = await ended(app, (await jobs.meddle.aenqueue(how)).id, "failed")
            assert crashes(job) == [("crash", "ChildLost", message)]
        await ended(app, (await jobs.quick.aenqueue()).id, "succeeded")


# -- timeouts


async def timed_out(id: str) -> JobInfo:
    job = await ended(app, id, "failed")
    assert job.reason == "timeout"
    return job


async def test_first_softly_then_hard(path: str) -> None:
    """B105: an exception ends a blocking call; whoever is deaf to it, or never gets it, is killed."""
    async with working(app, processes=1, concurrency=1, soft_grace=0.3) as worker:
        soft = await timed_out((await jobs.overrun.aenqueue(path, "softly")).id)
        asynchronous = await timed_out((await jobs.aoverrun.aenqueue(path)).id)
        stuck = await timed_out((await jobs.overrun.aenqueue(path, "stuck")).id)
        deaf = await timed_out((await jobs.overrun.aenqueue(path, "deaf")).id)
        await ended(app, (await jobs.quick.aenqueue()).id, "succeeded")
        assert worker.executor.running == 0
        pids = [words[1] for words in lines(path) if words[0] == "begin"]
        await await_until(lambda: all(map(gone, [pids[0], *pids[2:]])))
    said = [words for words in lines(path) if words[0] != "begin"]
    assert said == [["cleaned", "up", "timeout", "True"], ["cleaned", "up", "True"]]
    assert [(job.counts["attempts"], job.history[-1].kind) for job in (soft, asynchronous, stuck, deaf)] == [
        (1, "timeout")
    ] * 4
    assert soft.traceback.split("\n", 1)[0].endswith("in overrun")  # nothing of what has called it
    assert asynchronous.traceback == ""
    assert "in overrun" in deaf.traceback


async def test_a_soft_end_may_take_its_time(path: str, caplog: pytest.LogCaptureFixture) -> None:
    """Longer than other handlers are waited for before they are cancelled again; what it returns stands (B024)."""
    async with working(app, processes=1, soft_grace=10):
        job = await ended(app, (await jobs.overrun.aenqueue(path, "slow")).id, "succeeded")
    assert job.counts["attempts"] == 0
    assert lines(path)[1] == ["slow", "but", "sure"]
    assert f"job {job.id} returned after its timeout: what it did stands" in caplog.messages


async def test_what_a_signal_has_cut_short_is_no_success() -> None:
    """B105: a call in C ends early and returns, and so does its handler, which was never told that its time is over."""
    async with working(app, processes=1, soft_grace=0.3):
        await timed_out((await jobs.sleep_in_c.aenqueue()).id)


async def test_a_coroutine_that_blocks_beyond_its_timeout_and_returns_has_succeeded(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nothing has cut it short."""
    async with working(app, processes=1, soft_grace=10):
        job = await ended(app, (await jobs.adoze.aenqueue(1)).id, "succeeded")
    assert f"job {job.id} returned after its timeout: what it did stands" in caplog.messages


async def test_no_attempt_begins_beside_the_one_before(path: str) -> None:
    """B044: the process of the first attempt has gone before the second one starts."""
    async with working(app, processes=2, soft_grace=0.1):
        job = await ended(app, (await jobs.beside.aenqueue(path)).id, "succeeded")
    assert (job.counts["attempts"], job.counts["crashes"]) == (1, 0)
    assert [words for words in lines(path) if words[0] == "alive"] == [["alive"]]


async def test_a_timeout_at_the_moment_of_the_end() -> None:
    """B106: give or take 5 ms: all end, none of them as a crash, and the children are all there."""
    rng = random.Random(108)
    async with working(app, processes=2) as worker:
        some = await jobs.aclose.aenqueue_many([{"micros": rng.randint(25_000, 35_000)} for _ in range(60)])
        some += await jobs.close.aenqueue_many([{"micros": rng.randint(28_000, 30_500)} for _ in range(8)])
        await await_until(lambda: worker.executor.finished == 68, 60)
        await worker.settler.drained()
        found = [await app.ajobs.get(job.id) for job in some]
        assert {(job.state.value, job.reason) for job in found if job is not None} <= {
            ("succeeded", ""),
            ("failed", "timeout"),
        }
        assert worker.executor.running == 0
        await ended(app, (await jobs.decide.aenqueue("fail")).id, "failed")


# -- cancelled, or the worker stops


@pytest.fixture
async def worker(path: str) -> AsyncIterator[Worker]:
    async with working(app, processes=2, soft_grace=0.2) as worker:
        yield worker


async def begun(path: str, count: int) -> list[str]:
    """Wait for so many runs; the ids of their processes."""
    await await_until(lambda: sum(words[0] == "begin" for words in lines(path)) == count)
    return [words[1] for words in lines(path) if words[0] == "begin"]


async def test_a_cancelled_job_ends_or_is_killed(path: str, worker: Worker) -> None:
    """B110: one that listens and one that does not; both are recorded as cancelled, and cost nothing."""
    ids = [(await jobs.wait.aenqueue(path, stubborn)).id for stubborn in (False, True)]
    pids = await begun(path, 2)
    assert [await app.ajobs.cancel(id) for id in ids] == ["requested"] * 2
    found = [await ended(app, id, "cancelled") for id in ids]
    assert [(job.counts["attempts"], job.counts["crashes"], job.history) for job in found] == [(0, 0, ())] * 2
    await await_until(lambda: all(map(gone, pids)))
    assert ["cancel"] in lines(path)
    assert worker.executor.running == 0


async def test_what_waits_for_a_child_can_be_cancelled(path: str) -> None:
    async with working(app, processes=1, soft_grace=0.2) as worker:
        running = (await jobs.wait.aenqueue(path)).id
        await begun(path, 1)
        waiting = (await jobs.note.aenqueue(path, "never")).id
        await await_until(lambda: worker.executor.running == 2)
        await app.ajobs.cancel(waiting)
        await ended(app, waiting, "cancelled")
        assert await state_of(app, running) == "running"
    assert [words[0] for words in lines(path)] == ["begin", "shutdown"]


async def test_a_worker_that_stops_leaves_no_process_and_no_attempt(path: str) -> None:
    """B024, B108: the job is due again; its process has gone when the worker has."""
    async with working(app, processes=2) as worker:
        ids = [(await jobs.wait.aenqueue(path, stubborn)).id for stubborn in (False, True)]
        pids = await begun(path, 2)
        assert sorted(map(str, worker.executor.children)) == sorted(pids)
    assert all(map(gone, pids))
    for id in ids:
        job = await app.ajobs.get(id)
        assert job is not None
        assert (job.state.value, job.counts["releases"]) == ("ready", 1)
        assert (job.counts["attempts"], job.counts["crashes"]) == (0, 0)
        await app.ajobs.cancel(id)


# -- growth and age


async def test_one_that_grows_too_large_is_killed(path: str) -> None:
    """B010: the limit is that of the child; the crash names the memory, and the worker has its own."""
    async with working(app, processes=1, child_memory=150_000_000):
        job = await ended(app, (await jobs.grow.aenqueue(path, 200, hold=True)).id, "failed")
    assert job.reason == "crashed"
    assert crashes(job)[0][2].startswith("killed for its memory: ")
    assert crashes(job)[0][2].endswith("(child_memory 150,000,000)")


async def test_one_that_has_grown_is_replaced(path: str) -> None:
    """B115: between jobs, by half of what it may grow by."""
    async with working(app, processes=1, child_memory=400_000_000):
        for megabytes in (1, 1, 250, 1):
            await ended(app, (await jobs.grow.aenqueue(path, megabytes, hold=False)).id, "succeeded")
    first, second, third, fourth = (words[0] for words in lines(path))
    assert first == second == third != fourth


async def test_a_limit_below_the_beginning_is_refused_at_once(path: str, caplog: pytest.LogCaptureFixture) -> None:
    """B115: one error, no crash, and no process after the other that is killed."""
    caplog.set_level(logging.DEBUG, "headrace.worker")

    def tries() -> list[int]:
        return [record.levelno for record in caplog.records if "no child process" in record.message]

    async with working(app, processes=1, child_memory=5_000_000):
        id = (await jobs.grow.aenqueue(path, 1, hold=False)).id
        job = await ended(app, id, "scheduled")
        await await_until(lambda: len(tries()) == 2, 20, "the next try")
        await app.ajobs.cancel(id)
    assert tries() == [logging.ERROR, logging.DEBUG]
    assert (job.counts["crashes"], job.counts["releases"]) == (0, 1)
    assert "child_memory is 5,000,000 bytes, but it starts with" in caplog.text


async def test_one_is_replaced_after_so_many_jobs(path: str) -> None:
    async with working(app, processes=1, child_max_jobs=2):
        for text in "abc":
            await ended(app, (await jobs.note.aenqueue(path, text)).id, "succeeded")
        pids = [words[1] for words in lines(path)]
        assert pids[0] == pids[1] != pids[2]
        await await_until(lambda: gone(pids[0]))
    assert gone(pids[2])
