"""Jobs that wait in memory for the caller's commit."""

import asyncio
import gc
import logging
import weakref
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, TypeVar

import pytest
from sqlalchemy import Integer, create_engine, event, text
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, scoped_session, sessionmaker

from headrace import Headrace, Job, Task
from headrace.core.operations import Enqueue, Operation
from headrace.drivers.memory import MemoryDriver
from headrace.errors import ConfigError, StoreUnavailable, WrongColour
from headrace.stores.memory import MemoryStore
from tests.transactions.callers import Caller, through

R = TypeVar("R")

SESSIONS = ["session-pysqlite", "session-aiosqlite", "session-psycopg", "session-psycopg-async", "session-pymysql"]
ALL = [*SESSIONS, "session-asyncmy", "django-sqlite", "django-psycopg", "django-pymysql"]


@pytest.fixture(params=ALL)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Recording(MemoryDriver):
    """Notes each enqueue, and refuses them while it is told to."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.enqueued: list[list[str]] = []
        self.away = False

    def run(self, operation: Operation[R]) -> R:
        """Awaited operations come here too."""
        if isinstance(operation, Enqueue):
            if self.away:
                raise StoreUnavailable("the store is away")
            self.enqueued.append([job.id for job in operation.jobs])
        return super().run(operation)


@pytest.fixture
def store() -> Recording:
    return Recording()


@pytest.fixture
def jobs_app(store: Recording) -> Headrace:
    """The jobs live where no transaction reaches."""
    app = Headrace("memory://", resend=0)
    app.driver = store
    return app


@pytest.fixture
def mail(jobs_app: Headrace) -> Task[..., Any]:
    @jobs_app.task(name="mail", unique="{order_id}")
    def mail(order_id: int) -> None:
        """Never run here."""

    return mail


def later(caller: Caller, task: Task[..., Any], number: int) -> Job:
    job: Job = caller.enqueue(task, number, after_commit=True)
    assert (job.status, job.pending) == ("new", True)
    return job


def test_after_the_commit_and_not_before(caller: Caller, mail: Task[..., Any], store: Recording) -> None:
    caller.order(1)
    first, second = later(caller, mail, 1), later(caller, mail, 2)
    assert store.enqueued == []
    caller.commit()
    assert [id for ids in store.enqueued for id in ids] == [first.id, second.id]
    caller.order(2)
    caller.commit()
    assert sum(len(ids) for ids in store.enqueued) == 2


def test_a_rollback_forgets_them(caller: Caller, mail: Task[..., Any], store: Recording) -> None:
    caller.order(1)
    later(caller, mail, 1)
    caller.rollback()
    caller.order(2)
    kept = later(caller, mail, 2)
    caller.commit()
    assert store.enqueued == [[kept.id]]


def test_what_a_savepoint_asked_for_goes_with_it(caller: Caller, mail: Task[..., Any], store: Recording) -> None:
    caller.order(1)
    kept = later(caller, mail, 1)
    caller.savepoint()
    caller.order(2)
    later(caller, mail, 2)
    caller.back_to_savepoint()
    last = later(caller, mail, 3)
    caller.commit()
    assert [id for ids in store.enqueued for id in ids] == [kept.id, last.id]


def test_in_the_database_of_the_data_too(app: Headrace, caller: Caller, task: Task[..., Any]) -> None:
    """The job is stored by a transaction of the app's own, which waits for nothing: the caller's is over."""
    caller.order(1)
    job = later(caller, task, 1)
    caller.commit()
    assert [found.id for found in app.jobs.list("ready").jobs] == [job.id]


def test_in_another_store(redis_url: str, unique_name: str) -> None:
    with Headrace(redis_url, name=unique_name) as app, Session() as session:

        @app.task(name="mail")
        def mail(order_id: int) -> None:
            """Never run here."""

        job = mail.using(transaction=session, after_commit=True).enqueue(1)
        assert app.jobs.list("ready").jobs == ()
        session.commit()
        assert [found.id for found in app.jobs.list("ready").jobs] == [job.id]


def test_a_commit_in_two_phases(mysql_url: str, mail: Task[..., Any], store: Recording) -> None:
    engine = create_engine(through(mysql_url, "mysql+pymysql"))
    with Session(engine, twophase=True) as session:
        session.execute(text("select 1"))
        id = mail.using(transaction=session, after_commit=True).enqueue(1).id
        session.prepare()
        assert store.enqueued == []
        session.commit()
        session.execute(text("select 1"))
        mail.using(transaction=session, after_commit=True).enqueue(2)
        session.prepare()
        session.rollback()
    engine.dispose()
    assert store.enqueued == [[id]]


class OneSession:
    """Without a database of a server's: what SQLAlchemy does about transactions is the same on all."""

    @pytest.fixture
    def session(self) -> Iterator[Session]:
        engine = create_engine("sqlite://")
        with Session(engine) as session:
            yield session
        engine.dispose()


def ask(task: Task[..., Any], session: Any, number: int) -> str:
    return task.using(transaction=session, after_commit=True).enqueue(number).id


class TestSession(OneSession):
    def test_nested_savepoints(self, session: Session, mail: Task[..., Any], store: Recording) -> None:
        """What a released one asked for shares the fate of the one around it."""
        ids = [ask(mail, session, 1)]
        with session.begin_nested():
            ids.append(ask(mail, session, 2))
            with session.begin_nested():
                ids.append(ask(mail, session, 3))
            undone = session.begin_nested()
            ask(mail, session, 4)
            with session.begin_nested():
                ask(mail, session, 5)
            undone.rollback()
            ids.append(ask(mail, session, 6))
        ids.append(ask(mail, session, 7))
        session.commit()
        assert store.enqueued == [ids]

    def test_a_rollback_around_released_savepoints(
        self, session: Session, mail: Task[..., Any], store: Recording
    ) -> None:
        with session.begin_nested():
            ask(mail, session, 1)
        session.rollback()
        session.commit()
        assert store.enqueued == []

    def test_a_commit_with_savepoints_still_open(
        self, session: Session, mail: Task[..., Any], store: Recording
    ) -> None:
        ids = [ask(mail, session, 1)]
        session.begin_nested()
        ids.append(ask(mail, session, 2))
        session.begin_nested()
        ids.append(ask(mail, session, 3))
        session.commit()
        session.commit()
        session.commit()
        assert store.enqueued == [ids]

    def test_a_session_that_is_closed_or_reset_forgets(
        self, session: Session, mail: Task[..., Any], store: Recording
    ) -> None:
        for end in (session.close, session.reset, session.invalidate):
            session.execute(text("select 1"))
            ask(mail, session, 1)
            end()
            session.execute(text("select 1"))
            session.commit()
        assert store.enqueued == []

    def test_a_block_of_the_session(self, session: Session, mail: Task[..., Any], store: Recording) -> None:
        with session.begin():
            id = ask(mail, session, 1)
        with suppress(KeyError), session.begin():
            ask(mail, session, 2)
            raise KeyError
        assert store.enqueued == [[id]]

    def test_an_error_of_the_commit_itself(self, session: Session, mail: Task[..., Any], store: Recording) -> None:
        ask(mail, session, 1)

        def refuse(_: Session) -> None:
            raise KeyError

        event.listen(session, "before_commit", refuse)
        with pytest.raises(KeyError):
            session.commit()
        event.remove(session, "before_commit", refuse)
        session.rollback()
        session.commit()
        assert store.enqueued == []

    def test_many_go_together_a_thousand_at_a_time(
        self, session: Session, mail: Task[..., Any], store: Recording
    ) -> None:
        using = mail.using(transaction=session, after_commit=True)
        jobs = using.enqueue_many([(number,) for number in range(2_500)])
        session.commit()
        assert [len(ids) for ids in store.enqueued] == [1_000, 1_000, 500]
        assert [id for ids in store.enqueued for id in ids] == [job.id for job in jobs]

    def test_from_inside_a_flush(self, session: Session, mail: Task[..., Any], store: Recording) -> None:
        """SQLAlchemy has a marker of its own on the stack of transactions there."""

        class Base(DeclarativeBase):
            pass

        class Order(Base):
            __tablename__ = "orders"
            number: Mapped[int] = mapped_column(Integer, primary_key=True)

        Base.metadata.create_all(session.connection())
        event.listen(Order, "after_insert", lambda mapper, connection, order: ask(mail, session, order.number))
        session.add(Order(number=1))
        with session.begin_nested():
            session.add(Order(number=2))
        undone = session.begin_nested()
        session.add(Order(number=3))
        session.flush()
        undone.rollback()
        session.commit()
        assert [len(ids) for ids in store.enqueued] == [2]

    def test_a_failure_is_raised_by_the_commit_and_logged_and_the_session_goes_on(
        self, session: Session, mail: Task[..., Any], store: Recording, caplog: pytest.LogCaptureFixture
    ) -> None:
        session.execute(text("create table orders (number integer)"))
        session.execute(text("insert into orders values (1)"))
        id = ask(mail, session, 1)
        store.away = True
        with pytest.raises(StoreUnavailable) as caught:
            session.commit()
        assert "The transaction has been committed" in caught.value.__notes__[0]
        assert [line.levelno for line in caplog.records if id in line.message] == [logging.ERROR]
        store.away = False
        assert session.execute(text("select number from orders")).all() == [(1,)]
        second = ask(mail, session, 2)
        session.commit()
        assert store.enqueued == [[second]]

    def test_the_failure_of_one_app_does_not_keep_another_from_its_jobs(
        self, session: Session, mail: Task[..., Any], store: Recording
    ) -> None:
        away = Headrace("memory://", resend=0)
        away.driver = broken = Recording()
        broken.away = True

        @away.task(name="audit")
        def audit(order_id: int) -> None:
            """Never run here."""

        ask(audit, session, 1)
        id = ask(mail, session, 1)
        with pytest.raises(StoreUnavailable):
            session.commit()
        assert store.enqueued == [[id]]

    def test_a_scoped_session(self, mail: Task[..., Any], store: Recording) -> None:
        engine = create_engine("sqlite://")
        sessions = scoped_session(sessionmaker(engine))
        id = ask(mail, sessions, 1)
        sessions.commit()
        assert store.enqueued == [[id]]
        sessions.remove()
        engine.dispose()

    def test_any_database_will_do(self, mail: Task[..., Any], store: Recording) -> None:
        """Also one that we do not speak, and none at all."""
        with Session() as session:
            id = ask(mail, session, 1)
            session.commit()
        assert store.enqueued == [[id]]

    def test_a_session_that_begins_nothing_by_itself(self, mail: Task[..., Any], store: Recording) -> None:
        with Session(autobegin=False) as session:
            with pytest.raises(ConfigError, match="has not begun a transaction"):
                ask(mail, session, 1)
            with session.begin():
                id = ask(mail, session, 1)
        assert store.enqueued == [[id]]

    def test_no_session_is_kept(self, mail: Task[..., Any]) -> None:
        session = Session()
        ask(mail, session, 1)
        gone = weakref.ref(session)
        del session
        gc.collect()
        assert gone() is None

    def test_a_connection_tells_nobody(self, session: Session, mail: Task[..., Any]) -> None:
        with pytest.raises(ConfigError, match="nobody tells when this Connection commits"):
            ask(mail, session.connection(), 1)

    def test_there_must_be_a_transaction(self, mail: Task[..., Any]) -> None:
        with pytest.raises(ConfigError, match="name the transaction too"):
            mail.using(after_commit=True).enqueue(1)
        with pytest.raises(ConfigError, match="name the transaction too"):
            asyncio.run(mail.using(after_commit=True).aenqueue(1))

    def test_the_wrong_colour_is_refused(self, session: Session, mail: Task[..., Any]) -> None:
        with pytest.raises(WrongColour, match="would block the event loop"):
            asyncio.run(mail.using(transaction=session, after_commit=True).aenqueue(1))
