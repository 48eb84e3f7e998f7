"""The extension: settings from the config, factories that are called again, handlers in an app context."""

import inspect
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, current_app, g, has_app_context
from sqlalchemy import create_engine, text
from sqlalchemy.orm import scoped_session, sessionmaker

from headrace import ConfigError, Headrace, WrongColour
from headrace.contrib.flask import FlaskHeadrace
from headrace.contrib.flask.extension import SETTINGS
from tests.worker.working import KEEP, ended, working


def flask_app(**config: Any) -> Flask:
    app = Flask("shop")
    app.config.update(config)
    return app


@pytest.fixture
def jobs() -> Iterator[FlaskHeadrace]:
    jobs = FlaskHeadrace()

    @jobs.task(name="note", keep=KEEP)
    def note() -> None:
        """Says nothing."""

    yield jobs
    jobs.close()


def test_settings_are_the_arguments_of_headrace() -> None:
    arguments = [name for name in inspect.signature(Headrace.__init__).parameters if name != "self"]
    assert [name.lower() for name in SETTINGS] == arguments


def test_settings_come_from_the_config(sqlite_url: str) -> None:
    config = FlaskHeadrace(
        flask_app(
            HEADRACE_URL="redis://localhost",
            HEADRACE_NAME="mill",
            HEADRACE_LEASE="60s",
            HEADRACE_HEARTBEAT=5,
            HEADRACE_RESEND=0,
            HEADRACE_BUSY_TIMEOUT=2,
            HEADRACE_OUTBOX=sqlite_url,
            HEADRACE_OUTBOX_MODE="cdc",
            HEADRACE_VERSION="4f2a91c",
            HEADRACE_KEEP_FAILED=None,
            HEADRACE_HOLD_AFTER=5,
        )
    ).config
    assert (config.url, config.name, config.lease_s, config.heartbeat_s) == ("redis://localhost", "mill", 60, 5)
    assert (config.resend_s, config.busy_timeout_s) == (0, 2)
    assert (config.outbox, config.outbox_mode) == (sqlite_url, "cdc")
    assert (config.version, config.keep_failed_s, config.hold_after) == ("4f2a91c", None, 5)


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch, sqlite_url: str) -> None:
    monkeypatch.setenv("FLASK_HEADRACE_URL", sqlite_url)
    monkeypatch.setenv("FLASK_HEADRACE_LEASE", "45")
    app = Flask("shop")
    app.config.from_prefixed_env()
    assert FlaskHeadrace(app).config.lease_s == 45


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({}, "'shop' has no HEADRACE_URL"),
        ({"HEADRACE_URL": None}, "'shop' has no HEADRACE_URL"),
        ({"HEADRACE_URL": "memory://", "HEADRACE_LEASES": 5}, "HEADRACE_LEASES; headrace knows HEADRACE_URL, "),
        ({"HEADRACE_URL": "memory://", "HEADRACE_LEASE": 0.5}, "HEADRACE_... : lease is 0.5 s"),
        ({"HEADRACE_URL": "mongodb://"}, "HEADRACE_... : url is 'mongodb://'"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(config: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said.replace(".", r"\.")):
        FlaskHeadrace(flask_app(**config))


def test_the_whole_environment_may_be_in_the_config() -> None:
    app = flask_app(HEADRACE_URL="memory://", HEADRACE_APP="shop:jobs", HEADRACE_DEBUG="1", HEADRACE_OUTBOX=None)
    assert FlaskHeadrace(app).config.url == "memory://"


def test_before_init_app_nothing_is_stored(jobs: FlaskHeadrace) -> None:
    with pytest.raises(ConfigError, match=r"call its init_app\(app\)"):
        jobs.tasks["note"].enqueue()


def test_a_factory_may_be_called_again_with_another_store(jobs: FlaskHeadrace, tmp_path: Path) -> None:
    for number in (1, 2):
        app = flask_app(HEADRACE_URL=f"sqlite:///{tmp_path}/{number}.db")
        jobs.init_app(app)
        with app.app_context():
            jobs.tasks["note"].enqueue()
            assert len(jobs.jobs.list("ready").jobs) == 1
    assert {path.name for path in tmp_path.glob("?.db")} == {"1.db", "2.db"}


async def test_coroutines_follow_to_the_other_store(jobs: FlaskHeadrace, tmp_path: Path) -> None:
    for number in (1, 2):
        jobs.init_app(flask_app(HEADRACE_URL=f"sqlite:///{tmp_path}/{number}.db"))
        await jobs.tasks["note"].aenqueue()
        assert len((await jobs.ajobs.list("ready")).jobs) == 1
        await jobs.aclose()


def test_an_outbox_follows_too(jobs: FlaskHeadrace, tmp_path: Path) -> None:
    for number in (1, 2):
        jobs.init_app(flask_app(HEADRACE_URL="memory://", HEADRACE_OUTBOX=f"sqlite:///{tmp_path}/{number}.db"))
        assert jobs.outbox.view().pending == 0
    assert {path.name for path in tmp_path.glob("?.db")} == {"1.db", "2.db"}


def test_an_app_whose_settings_were_replaced_is_told(jobs: FlaskHeadrace, tmp_path: Path) -> None:
    first, second = (flask_app(HEADRACE_URL=f"sqlite:///{tmp_path}/{number}.db") for number in (1, 2))
    jobs.init_app(first)
    jobs.init_app(second)
    with first.app_context(), pytest.raises(ConfigError, match="belong in another store than those of 'shop'"):
        jobs.tasks["note"].enqueue()
    with second.app_context():
        assert jobs.tasks["note"].enqueue().status == "new"


def test_apps_with_the_same_settings_share_it(jobs: FlaskHeadrace, sqlite_url: str) -> None:
    both = [flask_app(HEADRACE_URL=sqlite_url), flask_app(HEADRACE_URL=sqlite_url)]
    for app in both:
        jobs.init_app(app)
    for app in both:
        with app.app_context():
            jobs.tasks["note"].enqueue()
    assert len(jobs.jobs.list("ready").jobs) == 2
    assert jobs.flask_app is both[1]


@pytest.mark.parametrize("colour", ["plain", "async"])
async def test_each_run_has_an_app_context_of_its_own(colour: str) -> None:
    app, seen = flask_app(HEADRACE_URL="memory://", MOTTO="water to the mill"), []
    jobs = FlaskHeadrace(app)
    app.teardown_appcontext(lambda error: seen.append((repr(error), g.number, threading.get_ident())))

    def note(number: int) -> None:
        assert "number" not in g
        g.number = number
        seen.append((current_app.config["MOTTO"], number, threading.get_ident()))
        if number == 2:
            raise LookupError("no number 2")

    async def anote(number: int) -> None:
        note(number)

    task = jobs.task(name="note", keep=KEEP, retry=1)(note if colour == "plain" else anote)
    first, second = await task.aenqueue(1), await task.aenqueue(2)
    async with working(jobs, concurrency=1):
        await ended(jobs, first.id, "succeeded")
        await ended(jobs, second.id, "failed")
    assert [entry[:2] for entry in seen] == [
        ("water to the mill", 1),
        ("None", 1),
        ("water to the mill", 2),
        ("LookupError('no number 2')", 2),
    ]
    assert seen[0][2] == seen[1][2]
    assert (seen[0][2] == threading.get_ident()) is (colour == "async")
    assert not has_app_context()


def test_an_async_view_enqueues_in_a_loop_of_its_own(jobs: FlaskHeadrace, sqlite_url: str) -> None:
    app = flask_app(HEADRACE_URL=sqlite_url, TESTING=True)
    jobs.init_app(app)

    @app.post("/notes")
    async def post() -> str:
        with pytest.raises(WrongColour, match="aenqueue"):
            jobs.tasks["note"].enqueue()
        return (await jobs.tasks["note"].aenqueue()).id

    client = app.test_client()
    ids = {client.post("/notes").text for _ in range(5)}
    assert {job.id for job in jobs.jobs.list("ready").jobs} == ids


def test_loops_that_are_over_leave_no_connections_behind(
    jobs: FlaskHeadrace, postgres_url: str, unique_name: str
) -> None:
    app = flask_app(HEADRACE_URL=f"{postgres_url}?application_name={unique_name}", HEADRACE_NAME=unique_name)
    jobs.init_app(app)
    engine = create_engine(postgres_url.replace("postgresql:", "postgresql+psycopg:"))

    @app.post("/notes")
    async def post() -> str:
        await jobs.tasks["note"].aenqueue()
        with engine.connect() as connection:
            count = text("select count(*) from pg_stat_activity where application_name = :name")
            return str(connection.execute(count, {"name": unique_name}).scalar_one())

    client = app.test_client()
    assert {int(client.post("/notes").text) for _ in range(10)} <= {1, 2}
    engine.dispose()


def test_a_session_for_each_app_context_can_be_handed_over(
    jobs: FlaskHeadrace, sqlite_path: Path, sqlite_url: str
) -> None:
    """As Flask-SQLAlchemy makes it."""
    app = flask_app(HEADRACE_URL=sqlite_url, TESTING=True)
    jobs.init_app(app)
    jobs.jobs.queues()
    engine = create_engine(f"sqlite:///{sqlite_path}")
    session = scoped_session(sessionmaker(engine), scopefunc=lambda: id(g._get_current_object()))
    app.teardown_appcontext(lambda error: session.remove())

    @app.post("/notes")
    def post() -> str:
        session.execute(text("create table if not exists notes (number integer)"))
        return jobs.tasks["note"].using(transaction=session).enqueue().status  # nobody commits

    @app.post("/kept")
    def keep() -> str:
        status = jobs.tasks["note"].using(transaction=session).enqueue().status
        session.commit()
        return status

    client = app.test_client()
    assert client.post("/notes").text == "new"
    assert jobs.jobs.list("ready").jobs == ()
    assert client.post("/kept").text == "new"
    assert len(jobs.jobs.list("ready").jobs) == 1
    engine.dispose()
