"""The same for AsyncSession: the commit awaits the enqueue, and the loop goes on meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine

from headrace import Headrace, Task
from headrace.core.operations import Enqueue, Operation
from headrace.drivers.memory import MemoryDriver
from headrace.errors import ConfigError, StoreUnavailable, WrongColour
from headrace.stores.memory import MemoryStore

R = TypeVar("R")


class Gated(MemoryDriver):
    """Lets no enqueue pass before it is told to."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.asked, self.gate = asyncio.Event(), asyncio.Event()
        self.enqueued: list[list[str]] = []

    async def arun(self, operation: Operation[R]) -> R:
        if isinstance(operation, Enqueue):
            self.asked.set()
            await self.gate.wait()
            self.enqueued.append([job.id for job in operation.jobs])
        return await super().arun(operation)


@asynccontextmanager
async def opened() -> AsyncIterator[AsyncSession]:
    engine = create_async_engine("sqlite+aiosqlite://")
    try:
        async with AsyncSession(engine) as session:
            yield session
    finally:
        await engine.dispose()


@pytest.fixture
def app() -> Headrace:
    return Headrace("memory://", resend=0)


@pytest.fixture
def mail(app: Headrace) -> Task[..., Any]:
    @app.task(name="mail")
    async def mail(order_id: int) -> None:
        """Never run here."""

    return mail


async def test_the_commit_awaits_the_enqueue(app: Headrace, mail: Task[..., Any]) -> None:
    app.driver = store = Gated()
    async with opened() as session:
        await session.execute(text("select 1"))
        using = mail.using(transaction=session, after_commit=True)
        first, (second, third) = await using.aenqueue(1), await using.aenqueue_many([(2,), (3,)])
        async with session.begin_nested():
            inner = await using.aenqueue(4)
        committing = asyncio.create_task(session.commit())
        await store.asked.wait()  # the loop goes on
        assert not committing.done()
        store.gate.set()
        await committing
    assert store.enqueued == [[job.id for job in (first, second, third, inner)]]


async def test_a_rollback_forgets(app: Headrace, mail: Task[..., Any]) -> None:
    app.driver = store = Gated()
    store.gate.set()
    async with opened() as session:
        using = mail.using(transaction=session, after_commit=True)
        await using.aenqueue(1)
        await session.rollback()
        undone = await session.begin_nested()
        await using.aenqueue(2)
        await undone.rollback()
        await session.commit()
    assert store.enqueued == []


async def test_a_commit_that_is_cancelled_meanwhile_says_so(
    app: Headrace, mail: Task[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    app.driver = store = Gated()
    async with opened() as session:
        await session.execute(text("create table orders (number integer)"))
        job = await mail.using(transaction=session, after_commit=True).aenqueue(1)
        committing = asyncio.create_task(session.commit())
        await store.asked.wait()
        committing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await committing
        assert (await session.execute(text("select count(*) from orders"))).scalar() == 0
    assert [line for line in caplog.records if job.id in line.message]


async def test_a_failure_is_raised_by_the_commit(app: Headrace, mail: Task[..., Any]) -> None:
    class Away(MemoryDriver):
        async def arun(self, operation: Operation[R]) -> R:
            raise StoreUnavailable("the store is away")

    app.driver = Away(MemoryStore())
    async with opened() as session:
        await mail.using(transaction=session, after_commit=True).aenqueue(1)
        with pytest.raises(StoreUnavailable):
            await session.commit()
        await session.execute(text("select 1"))
        await session.commit()
        assert not session.in_transaction()


async def test_a_scoped_session(app: Headrace, mail: Task[..., Any]) -> None:
    app.driver = store = Gated()
    store.gate.set()
    engine = create_async_engine("sqlite+aiosqlite://")
    sessions = async_scoped_session(async_sessionmaker(engine), scopefunc=asyncio.current_task)
    job = await mail.using(transaction=sessions, after_commit=True).aenqueue(1)
    await sessions.commit()
    await sessions.remove()
    await engine.dispose()
    assert store.enqueued == [[job.id]]


async def test_what_cannot_wait_is_refused(app: Headrace, mail: Task[..., Any]) -> None:
    async with opened() as session:
        with pytest.raises(WrongColour):
            mail.using(transaction=session, after_commit=True).enqueue(1)
        connection = await session.connection()
        with pytest.raises(ConfigError, match="nobody tells when this AsyncConnection commits"):
            await mail.using(transaction=connection, after_commit=True).aenqueue(1)
