"""Coroutines that end their jobs themselves, on the worker's own loop."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from headrace import Headrace, current_job
from headrace.errors import WrongColour
from tests.transactions.callers import Caller, through
from tests.transactions.shift import Told, at_work, orders, state, wait_for
from tests.waiting import wait_until

KEEP = 3600
LIBRARIES = {
    "session-aiosqlite": "sqlite+aiosqlite",
    "session-psycopg-async": "postgresql+psycopg",
    "session-asyncmy": "mysql+asyncmy",
}


@pytest.fixture(params=list(LIBRARIES))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(kind: str, place: str) -> str:
    library = LIBRARIES[kind]
    return f"{library}:///{place}" if library.startswith("sqlite") else through(place, library)


@asynccontextmanager
async def session(url: str) -> AsyncIterator[AsyncSession]:
    engine = create_async_engine(url)
    try:
        async with AsyncSession(engine) as opened:
            yield opened
    finally:
        await engine.dispose()


async def order(opened: AsyncSession, table: str, number: int) -> None:
    await opened.execute(text(f"insert into {table} (number) values ({number})"))


def test_a_coroutine_ends_its_job(app: Headrace, caller: Caller, url: str) -> None:
    told = Told()
    app.middleware.append(told)

    @app.task(name="work", keep=KEEP)
    async def work() -> None:
        async with session(url) as opened:
            await order(opened, caller.table, 1)
            await current_job().acomplete(transaction=opened)
            await opened.commit()

    job = work.enqueue()
    with at_work(app):
        wait_until(lambda: told.states == ["succeeded"], 30)
    assert (state(app, job.id), orders(caller)) == ("succeeded", [1])


@pytest.mark.parametrize("committed", [True, False])
def test_a_timeout_after_the_commit_is_too_late_and_one_before_it_is_not(
    app: Headrace, caller: Caller, url: str, committed: bool
) -> None:
    told = Told()
    app.middleware.append(told)

    @app.task(name="work", keep=KEEP, retry=1, timeout=1)
    async def work() -> None:
        async with session(url) as opened:
            await order(opened, caller.table, 1)
            await current_job().acomplete(transaction=opened)
            if committed:
                await opened.commit()
            await asyncio.Event().wait()

    job = work.enqueue()
    with at_work(app):
        wait_until(lambda: told.states == ["succeeded" if committed else "failed"], 30)
    info = app.jobs.get(job.id)
    assert info is not None
    assert (info.reason, orders(caller)) == (("", [1]) if committed else ("timeout", []))


def test_a_worker_that_is_stopped_hands_back_what_is_not_committed(app: Headrace, caller: Caller, url: str) -> None:
    """A deploy costs no attempt: the run is cancelled, its transaction rolled back, the job ready again."""
    ready: list[bool] = []

    @app.task(name="work", keep=KEEP, retry=1)
    async def work() -> None:
        async with session(url) as opened:
            await order(opened, caller.table, 1)
            await current_job().acomplete(transaction=opened)
            ready.append(True)
            await asyncio.Event().wait()

    job = work.enqueue()
    with at_work(app):
        wait_until(lambda: ready, 30)
    info = app.jobs.get(job.id)
    assert info is not None
    assert (info.state, info.counts["attempts"], orders(caller)) == ("ready", 0, [])


@pytest.mark.parametrize("kind", ["session-psycopg-async"])  # on SQLite its transaction locks out everybody
def test_a_run_that_ignores_the_end_of_its_worker_holds_up_no_reports(
    app: Headrace, caller: Caller, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """To hand its job back would wait for its transaction, and the reports of all other jobs behind it."""
    told, ready = Told(), []
    app.middleware.append(told)

    @app.task(name="work", retry=1)
    async def work() -> None:
        async with session(url) as opened:
            await order(opened, caller.table, 1)
            await current_job().acomplete(transaction=opened)
            ready.append(True)
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            await asyncio.Event().wait()

    job = work.enqueue()
    with at_work(app, grace=0.1):
        wait_until(lambda: ready, 30)
    assert "does not end" in caplog.text
    assert "took no reports" not in caplog.text
    # the worker's farewell waits for that transaction too, and may come through when its connection is closed
    assert state(app, job.id) in ("running", "ready")
    assert (told.states, orders(caller)) == ([], [])


def test_the_wrong_colour_is_refused(app: Headrace, caller: Caller, url: str) -> None:
    errors: list[Exception] = []

    @app.task(name="work", keep=KEEP)
    async def work() -> None:
        async with session(url) as opened:
            with pytest.raises(WrongColour) as caught:
                current_job().complete(transaction=opened)
            errors.append(caught.value)

    job = work.enqueue()
    with at_work(app):
        wait_for(app, job.id, "succeeded")
    assert "await acomplete" in str(errors[0])
