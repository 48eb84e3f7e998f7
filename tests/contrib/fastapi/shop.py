"""A shop on FastAPI: the order and the job that confirms it commit together, before the customer has an answer."""

import asyncio
import os
import threading
from pathlib import Path
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException
from sqlalchemy import MetaData, create_engine, insert
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker

from headrace import Headrace
from headrace.contrib.fastapi import get_headrace, lifespan, transaction
from headrace.contrib.sqlalchemy import share_sqlite
from tests.contrib.shop import Settings

settings = Settings.read()
jobs = settings.headrace()
orders, mails = settings.tables(MetaData())
engine = share_sqlite(create_engine(settings.engine_url()))
async_engine = share_sqlite(create_async_engine(settings.engine_url(awaited=True)))

SessionDep = Annotated[Session, transaction(sessionmaker(engine).begin)]
AsyncSessionDep = Annotated[AsyncSession, transaction(async_sessionmaker(async_engine).begin)]
worker = (lambda: jobs.worker(concurrency=2, grace=1)) if os.environ.get("SHOP_WORKER") else None
web = FastAPI(lifespan=lifespan(jobs, worker=worker))


@jobs.task(unique="{number}")
def send_confirmation(number: int) -> None:
    if os.environ.get("SHOP_STUCK"):
        Path(settings.held).touch()
        threading.Event().wait()
    with engine.begin() as connection:
        connection.execute(insert(mails).values(number=number))


@web.get("/up")
async def up() -> int:
    return os.getpid()


@web.post("/orders", status_code=201)
async def place(number: int, session: AsyncSessionDep, then: str = "") -> str:
    await session.execute(insert(orders).values(number=number))
    job = await send_confirmation.using(transaction=session).aenqueue(number=number)
    if then == "fail":
        raise RuntimeError("after the enqueue")
    if then == "refuse":
        raise HTTPException(409, "no stock")
    if then == "hold":
        await asyncio.to_thread(Path(settings.held).touch)
        await asyncio.Event().wait()
    return job.status


@web.post("/plain/orders", status_code=201)
def place_plainly(number: int, session: SessionDep, then: str = "") -> str:
    session.execute(insert(orders).values(number=number))
    job = send_confirmation.using(transaction=session).enqueue(number=number)
    if then == "fail":
        raise RuntimeError("after the enqueue")
    if then == "refuse":
        raise HTTPException(409, "no stock")
    return job.status


@web.get("/waiting")
async def waiting(headrace: Annotated[Headrace, Depends(get_headrace)]) -> int:
    return sum(queue.ready + queue.scheduled for queue in await headrace.ajobs.queues())
