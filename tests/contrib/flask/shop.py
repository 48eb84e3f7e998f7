"""A shop on Flask, made by a factory: the order and the job that confirms it commit together."""

import os
import threading
from pathlib import Path

from flask import Blueprint, Flask, abort, current_app, g, request
from sqlalchemy import MetaData, create_engine, insert
from sqlalchemy.orm import scoped_session, sessionmaker

from headrace.contrib.flask import FlaskHeadrace
from headrace.contrib.sqlalchemy import share_sqlite
from tests.contrib.shop import Settings

settings = Settings.read()
orders, mails = settings.tables(MetaData())
session = scoped_session(sessionmaker())  # one for each thread, as Flask-SQLAlchemy's is one for each context
jobs = FlaskHeadrace()
pages = Blueprint("pages", __name__)


def create_app() -> Flask:
    app = Flask(__name__)
    app.config.update(
        HEADRACE_URL=settings.jobs,
        HEADRACE_NAME=settings.name,
        HEADRACE_OUTBOX=settings.outbox,
        HEADRACE_LEASE=3,
        HEADRACE_BUSY_TIMEOUT=1,
    )
    session.remove()
    session.configure(bind=share_sqlite(create_engine(settings.engine_url())))
    jobs.init_app(app)
    app.register_blueprint(pages)
    app.teardown_appcontext(lambda error: session.remove())
    return app


@jobs.task(unique="{number}")
def send_confirmation(number: int) -> None:
    if "job" in g:
        raise RuntimeError(f"the context of job {g.job} is still there")
    g.job = number
    session.execute(insert(mails).values(number=number if "HEADRACE_URL" in current_app.config else -1))
    session.commit()
    session.execute(insert(mails).values(number=-number))  # never committed: the end of the context rolls back


@pages.get("/up")
def up() -> str:
    return str(os.getpid())


@pages.post("/orders")
def place() -> tuple[str, int]:
    number, then = int(request.args["number"]), request.args.get("then", "")
    session.execute(insert(orders).values(number=number))
    job = send_confirmation.using(transaction=session).enqueue(number=number)
    if then == "fail":
        raise RuntimeError("after the enqueue")
    if then == "refuse":
        abort(409)
    if then == "hold":
        Path(settings.held).touch()
        threading.Event().wait()
    session.commit()
    return job.status, 201


@pages.get("/waiting")
async def waiting() -> str:
    return str(sum(queue.ready + queue.scheduled for queue in await jobs.ajobs.queues()))
