"""From the start of a web process to its end: in FastAPI and Starlette, in several event loops, with stores away."""

import logging
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI, WebSocket
from fastapi.testclient import TestClient
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from headrace import ConfigError, Headrace, StoreMisconfigured, Task
from headrace.contrib.fastapi import get_headrace, lifespan
from headrace.worker import Worker
from tests.contrib.serving import free_port
from tests.waiting import wait_until

HeadraceDep = Annotated[Headrace, Depends(get_headrace)]


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def app(request: pytest.FixtureRequest, unique_name: str) -> Iterator[Headrace]:
    app = Headrace(request.getfixturevalue(f"{request.param}_url"), name=unique_name)
    yield app
    app.close()


@pytest.fixture
def note(app: Headrace) -> Task[[str], None]:
    @app.task(name="note")
    def note(text: str) -> None:
        """Never run here, but for one test."""

    return note


def site(app: Headrace, note: Task[[str], None], **options: Any) -> FastAPI:
    web = FastAPI(lifespan=lifespan(app, **options))

    @web.post("/notes")
    async def post(text: str) -> str:
        return (await note.aenqueue(text)).id

    @web.get("/waiting")
    async def waiting(headrace: HeadraceDep) -> int:
        return len((await headrace.ajobs.list("ready")).jobs)

    @web.websocket("/live")
    async def live(socket: WebSocket, headrace: HeadraceDep) -> None:
        await socket.accept()
        await socket.send_text(headrace.config.name)
        await socket.close()

    return web


def test_an_app_may_be_opened_and_closed_many_times(app: Headrace, note: Task[[str], None]) -> None:
    web = site(app, note)
    for number in range(1, 4):
        with TestClient(web) as client:
            client.post("/notes", params={"text": "hello"})
            assert client.get("/waiting").json() == number
            with client.websocket_connect("/live") as socket:
                assert socket.receive_text() == app.config.name
    assert len(app.jobs.list("ready").jobs) == 3


def test_each_request_may_have_an_event_loop_of_its_own(app: Headrace, note: Task[[str], None]) -> None:
    client = TestClient(site(app, note))  # without a lifespan, it makes a loop for each request
    ids = {client.post("/notes", params={"text": "hello"}).json() for _ in range(5)}
    assert {job.id for job in app.jobs.list("ready").jobs} == ids


def test_two_web_apps_may_run_at_once(app: Headrace, note: Task[[str], None]) -> None:
    first_is_over = threading.Event()
    failures: list[BaseException] = []

    def other() -> None:
        try:
            with TestClient(site(app, note)) as client:
                client.post("/notes", params={"text": "before"})
                assert first_is_over.wait(30)
                client.post("/notes", params={"text": "after"})
        except BaseException as error:  # noqa: BLE001 - shown by the test
            failures.append(error)

    thread = threading.Thread(target=other)
    with TestClient(site(app, note)) as client:
        thread.start()
        wait_until(lambda: client.get("/waiting").json() == 1, what="the other app's first note")
    first_is_over.set()
    thread.join(30)
    assert failures == []
    assert len(app.jobs.list("ready").jobs) == 2


def test_ones_own_lifespan_runs_inside_and_keeps_its_state(sqlite_url: str) -> None:
    app = Headrace(sqlite_url)

    @app.task
    def note(text: str) -> None:
        """Never run here."""

    @asynccontextmanager
    async def own(web: FastAPI) -> AsyncIterator[dict[str, str]]:
        await note.aenqueue(f"start of {web.title}")
        yield {"motto": "water to the mill"}
        await note.aenqueue("end")

    web = FastAPI(title="shop", lifespan=lifespan(app, own))

    @web.get("/state")
    async def state(request: Request) -> list[str]:
        return [request.state.motto, request.state.headrace.config.name]

    with TestClient(web) as client:
        assert client.get("/state").json() == ["water to the mill", "headrace"]
    assert len(app.jobs.list("ready").jobs) == 2
    app.close()


def test_an_error_in_ones_own_lifespan_comes_through(sqlite_url: str) -> None:
    @asynccontextmanager
    async def own(web: FastAPI) -> AsyncIterator[None]:
        raise LookupError("no such template")
        yield

    with (
        pytest.raises(LookupError, match="no such template"),
        TestClient(FastAPI(lifespan=lifespan(Headrace(sqlite_url), own))),
    ):
        raise AssertionError("it must not start")


def test_it_makes_the_tables(sqlite_path: Path, sqlite_url: str) -> None:
    with TestClient(FastAPI(lifespan=lifespan(Headrace(sqlite_url)))):
        assert sqlite_path.exists()


def test_tables_of_an_outbox_are_made_too(redis_url: str, sqlite_path: Path, sqlite_url: str, unique_name: str) -> None:
    app = Headrace(redis_url, name=unique_name, outbox=sqlite_url)
    with TestClient(FastAPI(lifespan=lifespan(app))):
        assert sqlite_path.exists()


def test_a_store_that_is_away_does_not_keep_the_web_process_from_starting(caplog: pytest.LogCaptureFixture) -> None:
    app = Headrace(f"redis://127.0.0.1:{free_port()}", resend=0)

    @app.task
    def note(text: str) -> None:
        """Never run here."""

    with TestClient(site(app, note), raise_server_exceptions=False) as client:
        assert client.post("/notes", params={"text": "hello"}).status_code == 500
    assert "the web process starts without its store" in caplog.text


def test_a_store_that_cannot_hold_jobs_does(tmp_path: Path) -> None:
    app = Headrace(f"sqlite:///{tmp_path}")
    with pytest.raises(StoreMisconfigured, match="is a directory"), TestClient(FastAPI(lifespan=lifespan(app))):
        raise AssertionError("it must not start")


def test_without_its_lifespan_the_error_says_how_to_run_it(sqlite_url: str) -> None:
    app = Headrace(sqlite_url)

    @app.task
    def note(text: str) -> None:
        """Never run here."""

    client = TestClient(site(app, note))
    with pytest.raises(ConfigError, match=r"with TestClient\(web\) as client"):
        client.get("/waiting")


def test_starlette_needs_nothing_more(sqlite_url: str) -> None:
    async def name(request: Request) -> PlainTextResponse:
        headrace = await get_headrace(request)
        assert headrace is request.state.headrace
        return PlainTextResponse(headrace.config.name)

    web = Starlette(routes=[Route("/", name)], lifespan=lifespan(Headrace(sqlite_url, name="mill")))
    with TestClient(web) as client:
        assert client.get("/").text == "mill"


def test_a_worker_in_the_web_process_runs_jobs_and_stops_with_it(sqlite_url: str) -> None:
    app = Headrace(sqlite_url)
    done: list[str] = []
    made: list[Worker] = []

    @app.task
    def note(text: str) -> None:
        done.append(text)

    def worker() -> Worker:
        made.append(app.worker(concurrency=2, grace=1))
        return made[-1]

    web = site(app, note, worker=worker)
    for text in ("first", "second"):
        with TestClient(web) as client:
            client.post("/notes", params={"text": text})
            wait_until(lambda text=text: text in done, what="the job to run")
    assert done == ["first", "second"]
    assert app.jobs.workers() == []
    assert len(made) == 2
    app.close()


def test_a_worker_that_ends_by_itself_is_told(sqlite_url: str, caplog: pytest.LogCaptureFixture) -> None:
    app = Headrace(sqlite_url)

    @app.task
    def note(text: str) -> None:
        """Run once, after which the worker is at its limit."""

    web = site(app, note, worker=lambda: app.worker(max_jobs=1, grace=1))
    with caplog.at_level(logging.ERROR, "headrace.fastapi"), TestClient(web) as client:
        client.post("/notes", params={"text": "hello"})
        wait_until(lambda: "has reached its limit" in caplog.text, what="the end of the worker")
        assert client.get("/waiting").json() == 0
    app.close()
