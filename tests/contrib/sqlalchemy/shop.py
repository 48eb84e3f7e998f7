"""A shop on SQLAlchemy alone: an ASGI app without a framework, and handlers that end their jobs themselves."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from sqlalchemy import MetaData, create_engine, insert
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import sessionmaker

from headrace import Retry, current_job
from headrace.contrib.sqlalchemy import share_sqlite
from tests.contrib.shop import Settings

settings = Settings.read()
jobs = settings.headrace()
orders, mails = settings.tables(MetaData())
Session = sessionmaker(share_sqlite(create_engine(settings.engine_url())))
AsyncSession = async_sessionmaker(share_sqlite(create_async_engine(settings.engine_url(awaited=True))))


OFTEN = Retry(max_crashes=100)  # the tests kill workers, and no job is to blame


@jobs.task(unique="{number}", retry=OFTEN)
async def send_confirmation(number: int) -> None:
    """Effect and end in one transaction."""
    async with AsyncSession() as session, session.begin():
        await session.execute(insert(mails).values(number=number))
        await current_job().acomplete(transaction=session)


@jobs.task(unique="plain-{number}", retry=OFTEN)
def send_confirmation_plainly(number: int) -> None:
    with Session() as session, session.begin():
        session.execute(insert(mails).values(number=number))
        current_job().complete(transaction=session)


async def place(number: int, then: str) -> int:
    async with AsyncSession() as session, session.begin():
        await session.execute(insert(orders).values(number=number))
        await send_confirmation.using(transaction=session, after_commit=then == "later").aenqueue(number=number)
        if then == "refuse":
            await session.rollback()
            return 409
        if then == "hold":
            await asyncio.to_thread(Path(settings.held).touch)
            await asyncio.Event().wait()
    return 201


def place_plainly(number: int, then: str) -> int:
    with Session() as session, session.begin():
        session.execute(insert(orders).values(number=number))
        send_confirmation_plainly.using(transaction=session, after_commit=then == "later").enqueue(number=number)
        if then == "refuse":
            session.rollback()
            return 409
    return 201


Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


async def web(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """The web server's app."""
    if scope["type"] != "http":
        return
    query = {name: values[0] for name, values in parse_qs(scope["query_string"].decode()).items()}
    status, body = 200, str(os.getpid())
    match scope["path"]:
        case "/orders":
            status = await place(int(query["number"]), query.get("then", ""))
        case "/plain/orders":
            status = await asyncio.to_thread(place_plainly, int(query["number"]), query.get("then", ""))
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": body.encode()})
