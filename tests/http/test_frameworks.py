"""Routes that need a key, in FastAPI, Flask and Django."""

import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI, HTTPException, Response
from fastapi.responses import JSONResponse
from fastapi.testclient import TestClient
from flask import Flask
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

from headrace import ConfigError, Headrace, StoreUnavailable
from headrace.contrib.fastapi import lifespan, transaction
from headrace.contrib.fastapi import required_key as fastapi_key
from headrace.contrib.flask import required_key as flask_key
from headrace.contrib.sqlalchemy import share_sqlite
from headrace.http import IdempotencyMiddleware, IdempotentRequest, WSGIIdempotencyMiddleware
from tests.public.drivers import WatchedDriver

WITH_KEY = {"Idempotency-Key": '"k"'}


@pytest.fixture
def app() -> Iterator[Headrace]:
    with Headrace("memory://") as app:
        app.driver = WatchedDriver()
        yield app


def away(app: Headrace) -> None:
    """From now on the store cannot be reached."""

    def trouble(operation: Any, when: str) -> None:
        raise StoreUnavailable

    app.driver.trouble = trouble  # type: ignore[attr-defined]


def fastapi_site(app: Headrace | None, **options: Any) -> TestClient:
    web = FastAPI()

    @web.post("/orders")
    async def order(key: Annotated[IdempotentRequest, Depends(fastapi_key)]) -> dict[str, Any]:
        return {"key": key.key, "fence": key.fence}

    if app is not None:
        web.add_middleware(IdempotencyMiddleware, app, **options)
    return TestClient(web)


def flask_site(app: Headrace | None, **options: Any) -> Any:
    web = Flask(__name__)
    web.testing = True

    @web.post("/orders")
    def order() -> dict[str, Any]:
        key = flask_key()
        return {"key": key.key, "fence": key.fence}

    if app is not None:
        web.wsgi_app = WSGIIdempotencyMiddleware(web.wsgi_app, app, **options)  # type: ignore[method-assign]
    return web.test_client()


SITES = pytest.mark.parametrize("site", [fastapi_site, flask_site])


def json_of(response: Any) -> Any:
    return response.json() if callable(response.json) else response.get_json(force=True)


@SITES
def test_a_route_may_need_a_key(app: Headrace, site: Any) -> None:
    client = site(app)
    missing = client.post("/orders")
    assert missing.status_code == 400
    assert missing.headers["Content-Type"] == "application/problem+json"
    assert "Idempotency-Key" in json_of(missing)["detail"]
    first, again = client.post("/orders", headers=WITH_KEY), client.post("/orders", headers=WITH_KEY)
    assert json_of(first)["key"] == "k"
    assert json_of(first)["fence"] > 0
    assert json_of(again) == json_of(first)
    assert again.headers["Idempotent-Replayed"] == "true"


@SITES
def test_a_route_that_needs_a_key_is_not_run_unguarded(app: Headrace, site: Any) -> None:
    client = site(app, outage="run")
    away(app)
    refused = client.post("/orders", headers=WITH_KEY)
    assert refused.status_code == 503
    assert int(refused.headers["Retry-After"]) > 0


@SITES
def test_a_forgotten_middleware_is_found_out(site: Any) -> None:
    with pytest.raises(ConfigError, match="past the middleware"):
        site(None).post("/orders", headers=WITH_KEY)


def committing_site(path: Path, then: str, runs: list[str]) -> FastAPI:
    """An order and its answer commit together, in FastAPI's way."""
    engine = share_sqlite(create_async_engine(f"sqlite+aiosqlite:///{path}"))
    session_dep = transaction(async_sessionmaker(engine).begin)

    @asynccontextmanager
    async def own(web: FastAPI) -> AsyncIterator[None]:
        async with engine.begin() as connection:
            await connection.execute(text("create table orders (id integer primary key)"))
        yield
        await engine.dispose()

    app = Headrace(f"sqlite:///{path}")
    web = FastAPI(lifespan=lifespan(app, own))
    web.add_middleware(IdempotencyMiddleware, app)

    @web.post("/orders")
    async def order(
        key: Annotated[IdempotentRequest, Depends(fastapi_key)], session: Annotated[AsyncSession, session_dep]
    ) -> Response:
        runs.append(key.key)
        await session.execute(text("insert into orders default values"))
        answer = JSONResponse({"order": len(runs)}, 201)
        await key.acomplete(transaction=session, status=201, headers=answer.headers, body=bytes(answer.body))
        if then == "fail":
            raise RuntimeError("before the commit")
        if then == "refuse":
            raise HTTPException(402, "no money")
        return answer

    return web


@pytest.mark.parametrize("then", ["", "fail", "refuse"])
def test_in_fastapi_effect_and_answer_commit_before_the_answer_is_sent(sqlite_path: Path, then: str) -> None:
    """With its dependency for transactions; an exception rolls back, and gives the key back."""
    runs: list[str] = []
    with TestClient(committing_site(sqlite_path, then, runs), raise_server_exceptions=False) as client:
        answers = [client.post("/orders", headers=WITH_KEY) for _ in range(3)]
    with closing(sqlite3.connect(sqlite_path)) as connection:
        (count,) = connection.execute("select count(*) from orders").fetchone()
    if then:
        assert (len(runs), count) == (3, 0)
        assert {answer.status_code for answer in answers} == {500 if then == "fail" else 402}
    else:
        assert (len(runs), count) == (1, 1)
        assert [(answer.status_code, answer.text) for answer in answers] == [(201, '{"order":1}')] * 3


DJANGO = """
import asyncio

import django
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import path

settings.configure(
    ROOT_URLCONF=__name__,
    ALLOWED_HOSTS=["*"],
    HEADRACE={"URL": "memory://"},
    INSTALLED_APPS=["headrace.contrib.django"],
)
django.setup()

from headrace.contrib.django import app, required_key
from headrace.http import IdempotencyMiddleware, WSGIIdempotencyMiddleware, current_request

@required_key
def plain(request):
    return HttpResponse(current_request().key)

@required_key
async def awaited(request):
    return HttpResponse(current_request().key)

urlpatterns = [path("plain", plain), path("awaited", awaited)]

import httpx2

def told(response):
    print(response.status_code, response.headers["Content-Type"], response.headers.get("Idempotent-Replayed"))

for client in [httpx2.Client(
    transport=httpx2.WSGITransport(app=WSGIIdempotencyMiddleware(get_wsgi_application(), app)), base_url="http://w"
)]:
    for where in ("plain", "awaited"):
        for headers in ({}, {"Idempotency-Key": where}, {"Idempotency-Key": where}):
            told(client.post(f"/{where}", headers=headers))

async def main():
    web = IdempotencyMiddleware(get_asgi_application(), app, name="asgi")
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=web), base_url="http://a") as client:
        for where in ("plain", "awaited"):
            for headers in ({}, {"Idempotency-Key": where}, {"Idempotency-Key": where}):
                told(await client.post(f"/{where}", headers=headers))

asyncio.run(main())
"""


def test_a_view_of_django_may_need_a_key(tmp_path: Path) -> None:
    (tmp_path / "site.py").write_text(DJANGO)
    command = [sys.executable, "-W", "error", "site.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    text = "text/html; charset=utf-8"
    once = ["400 application/problem+json None", f"200 {text} None", f"200 {text} true"]
    assert ran.stdout.splitlines() == once * 4
