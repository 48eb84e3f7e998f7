"""When a dependency commits: before the client has its answer, or after."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse, StreamingResponse
from fastapi.testclient import TestClient
from sqlalchemy import Engine, create_engine, event, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import async_sessionmaker
from sqlalchemy.orm import Session, sessionmaker

from headrace import Headrace, Task
from headrace.contrib.fastapi import lifespan, transaction
from headrace.errors import ConfigError


class Ledger:
    """Stands for a database: notes what happens, and in which order."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[str]:
        with self.plain_begin() as name:
            yield name

    @contextmanager
    def plain_begin(self) -> Iterator[str]:
        try:
            yield "session"
        except BaseException:
            self.seen.append("rollback")
            raise
        self.seen.append("commit")

    async def generator(self) -> AsyncIterator[str]:
        async with self.begin() as name:
            yield name

    async def call(self, web: FastAPI, path: str) -> list[str]:
        """What happened during one request, the parts of the answer included."""

        parts = [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive() -> dict[str, Any]:
            if not parts:
                await asyncio.Event().wait()  # the client stays and says nothing more
            return parts.pop()

        async def send(message: dict[str, Any]) -> None:
            self.seen.append(f"answer {message['status']}" if "status" in message else "body")

        scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": [], "app": web}
        await web(scope, receive, send)  # type: ignore[arg-type]
        return self.seen


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.mark.parametrize("colour", ["async", "plain"])
async def test_the_commit_comes_before_the_answer(ledger: Ledger, colour: str) -> None:
    web = FastAPI()
    session = transaction(ledger.begin if colour == "async" else ledger.plain_begin)

    @web.get("/")
    async def page(held: Annotated[str, session]) -> str:
        ledger.seen.append(f"path function with {held}")
        return held

    assert await ledger.call(web, "/") == ["path function with session", "commit", "answer 200", "body"]


async def test_a_plain_dependency_with_yield_commits_after_the_answer(ledger: Ledger) -> None:
    """What docs/fastapi.md warns of; once FastAPI changes this, the page must change too."""
    web = FastAPI()

    @web.get("/")
    async def page(held: Annotated[str, Depends(ledger.generator)]) -> str:
        return held

    assert await ledger.call(web, "/") == ["answer 200", "body", "commit"]


@pytest.mark.parametrize("colour", ["async", "plain"])
async def test_an_http_exception_rolls_back_before_the_answer(ledger: Ledger, colour: str) -> None:
    web = FastAPI()
    session = transaction(ledger.begin if colour == "async" else ledger.plain_begin)

    @web.get("/")
    async def page(held: Annotated[str, session]) -> str:
        raise HTTPException(409, held)

    assert await ledger.call(web, "/") == ["rollback", "answer 409", "body"]


async def test_an_error_that_is_returned_commits(ledger: Ledger) -> None:
    web = FastAPI()

    @web.get("/")
    async def page(held: Annotated[str, transaction(ledger.begin)]) -> JSONResponse:
        return JSONResponse(held, status_code=409)

    assert await ledger.call(web, "/") == ["commit", "answer 409", "body"]


async def test_a_streamed_answer_comes_after_the_commit(ledger: Ledger) -> None:
    web = FastAPI()

    @web.get("/")
    async def page(held: Annotated[str, transaction(ledger.begin)]) -> StreamingResponse:
        return StreamingResponse(iter([held]))

    assert (await ledger.call(web, "/"))[:2] == ["commit", "answer 200"]


async def test_dependencies_that_ask_for_the_same_thing_share_it(ledger: Ledger) -> None:
    web = FastAPI()
    session_dep = Annotated[str, transaction(ledger.begin)]

    async def user(held: session_dep) -> str:  # type: ignore[valid-type]
        return f"user by {held}"

    @web.get("/")
    async def page(held: session_dep, name: Annotated[str, Depends(user)]) -> str:  # type: ignore[valid-type]
        ledger.seen.append(name)
        return name

    assert await ledger.call(web, "/") == ["user by session", "commit", "answer 200", "body"]


def test_tests_may_put_another_session_in_its_place(ledger: Ledger) -> None:
    web = FastAPI()
    in_transaction = transaction(ledger.begin)

    @web.get("/")
    async def page(held: Annotated[str, in_transaction]) -> str:
        return held

    web.dependency_overrides[in_transaction.dependency] = lambda: "a session of the test"
    assert TestClient(web).get("/").json() == "a session of the test"
    assert ledger.seen == []


@pytest.fixture
def engine(sqlite_path: Path) -> Iterator[Engine]:
    """With a table whose constraint is looked at by the commit."""
    engine = create_engine(f"sqlite:///{sqlite_path}")

    @event.listens_for(engine, "connect")
    def connected(connection: sqlite3.Connection, _record: object) -> None:
        connection.execute("pragma foreign_keys = on")

    with engine.begin() as connection:
        connection.execute(text("create table items (sku text primary key)"))
        connection.execute(
            text("create table orders (sku text references items deferrable initially deferred)"),
        )
    yield engine
    engine.dispose()


@pytest.fixture
def app(sqlite_url: str) -> Headrace:
    return Headrace(sqlite_url)


@pytest.fixture
def confirm(app: Headrace) -> Task[[str], None]:
    @app.task
    def confirm(sku: str) -> None:
        """Never run here."""

    return confirm


@pytest.fixture
def web(app: Headrace, engine: Engine, confirm: Task[[str], None]) -> FastAPI:
    web = FastAPI(lifespan=lifespan(app))

    @web.post("/orders")
    def order(sku: str, session: Annotated[Session, transaction(sessionmaker(engine).begin)]) -> str:
        session.execute(text("insert into orders values (:sku)"), {"sku": sku})
        return confirm.using(transaction=session).enqueue(sku).status

    return web


def test_a_commit_that_fails_is_no_success_and_leaves_no_job(app: Headrace, web: FastAPI) -> None:
    with TestClient(web, raise_server_exceptions=False) as client:
        assert client.post("/orders", params={"sku": "nowhere"}).status_code == 500
        assert app.jobs.list("ready").jobs == ()


def test_a_handler_of_exceptions_may_answer_for_a_commit_that_fails(app: Headrace, web: FastAPI) -> None:
    @web.exception_handler(IntegrityError)
    async def conflict(request: Request, error: IntegrityError) -> JSONResponse:
        return JSONResponse("no such item", status_code=409)

    with TestClient(web) as client:
        assert client.post("/orders", params={"sku": "nowhere"}).status_code == 409
        assert app.jobs.list("ready").jobs == ()


def test_one_that_succeeds_leaves_one(app: Headrace, engine: Engine, web: FastAPI) -> None:
    with engine.begin() as connection:
        connection.execute(text("insert into items values ('shoe')"))
    with TestClient(web) as client:
        assert client.post("/orders", params={"sku": "shoe"}).json() == "new"
        assert len(app.jobs.list("ready").jobs) == 1


def test_what_commits_nothing_is_refused(engine: Engine) -> None:
    for maker in (sessionmaker(engine), async_sessionmaker()):
        with pytest.raises(ConfigError, match="hand over a `begin`"):
            transaction(maker)
    web = FastAPI()

    @web.get("/")
    def nothing(session: Annotated[Session, transaction(lambda: Session(engine))]) -> None:
        """Never reached."""

    with TestClient(web) as client, pytest.raises(ConfigError, match="was given a Session"):
        client.get("/")
