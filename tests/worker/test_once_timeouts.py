"""Plain handlers that overrun their timeout: no run under the same key begins beside a thread that is still at it."""

import threading

from headrace import Headrace, current_job
from tests.waiting import await_until
from tests.worker.working import KEEP, ended, working


async def test_a_key_is_not_free_before_the_thread_of_its_last_attempt_has_ended() -> None:
    """B044: also where that attempt has no retry. The job has failed once nobody is at it any more."""
    app, release, runs = Headrace("memory://"), threading.Event(), list[str]()

    @app.task(once="k", timeout=0.2, retry=1, keep=KEEP)
    def charge() -> None:
        runs.append(f"{current_job().id} begins")
        if len(runs) == 1:
            release.wait(60)
        runs.append(f"{current_job().id} ends")

    async with working(app, concurrency=2) as worker:
        first = await charge.aenqueue()
        await await_until(lambda: worker.executor.stuck == 1)
        second = await charge.aenqueue()

        async def was_put_off() -> bool:
            job = await app.ajobs.get(second.id)
            return job is not None and job.counts["releases"] > 0

        await await_until(was_put_off)
        assert runs == [f"{first.id} begins"]
        release.set()
        assert (await ended(app, first.id, "failed")).reason == "timeout"
        assert (await ended(app, second.id, "succeeded")).reason == ""
    assert runs == [f"{id} {what}" for id in (first.id, second.id) for what in ("begins", "ends")]


async def test_a_polls_key_is_not_free_before_the_thread_of_its_last_query_has_ended() -> None:
    """No two queries of one key are in flight, also where errors have used up the first poll."""
    app, release = Headrace("memory://"), threading.Event()

    @app.poll(every="1s", give_up_after="1h", unique="k", timeout=0.2, retry=1)
    def ask() -> str:
        release.wait(60)
        return "final"

    async with working(app, concurrency=2) as worker:
        first = await ask.aenqueue()
        await await_until(lambda: worker.executor.stuck == 1)
        assert (await ask.aenqueue()).id == first.id
        release.set()
        assert (await ended(app, first.id, "failed")).reason == "timeout"
        assert (await ask.aenqueue()).status == "new"
