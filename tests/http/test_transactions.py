"""The answer is stored in the handler's own transaction: effect and answer commit together, or neither does."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, create_engine, select
from sqlalchemy.exc import OperationalError

from tests.http.calling import Caller, is_replay, new_key
from tests.http.conftest import FACTORY

DATABASES = ("sqlite", "postgres", "mysql")


class Orders:
    """What the handlers' transactions have committed."""

    def __init__(self, caller: Caller) -> None:
        columns = (Column("id", Integer, primary_key=True), Column("effect", String(50)))
        self._table = Table(f"{caller.settings.name}_orders", MetaData(), *columns)
        self._engine = create_engine(caller.settings.engine_url())
        self._table.create(self._engine)

    def count(self, effect: str) -> int:
        with self._engine.connect() as connection:
            return len(connection.execute(select(self._table).where(self._table.c.effect == effect)).all())

    def may_be_written(self) -> bool:
        """Whether nobody holds the whole database."""
        try:
            with self._engine.begin() as connection:
                connection.execute(self._table.delete().where(self._table.c.id == -1))
        except OperationalError:
            return False
        return True

    def close(self) -> None:
        self._table.drop(self._engine)
        self._engine.dispose()


@pytest.fixture(params=[f"{shell}-{kind}" for shell in ("asgi", "wsgi") for kind in DATABASES])
def caller(request: pytest.FixtureRequest, serve: FACTORY) -> Caller:
    shell, kind = request.param.split("-")
    return serve(shell, kind)


@pytest.fixture
def orders(caller: Caller) -> Iterator[Orders]:
    made = Orders(caller)
    yield made
    made.close()


def test_effect_and_answer_commit_together(caller: Caller, orders: Orders) -> None:
    """Also where the handler fails after the commit (B155), or its server is killed before it has answered."""
    key, failing, killed = new_key(), new_key(), new_key()
    first, again = caller.twice(key, then="commit")
    assert (first.status_code, first.text) == (201, f"order {key}")
    assert (again.status_code, again.content, is_replay(again)) == (201, first.content, True)
    assert again.headers["Location"] == "/orders/1"
    assert again.headers["Content-Type"] == first.headers["Content-Type"]
    assert "Set-Cookie" not in again.headers
    assert caller.post(failing, then="fails_later").status_code == 500
    assert caller.post(failing, then="fails_later").text == f"order {failing}"
    with ThreadPoolExecutor(1) as client:
        lost = client.submit(caller.post, killed, then="killed")
        caller.wait_held(killed)
        caller.web.kill()
        assert lost.exception() is not None
    caller.serve()
    after = caller.post(killed, then="killed")  # at once: no lease is in the way
    assert (after.status_code, after.text, is_replay(after)) == (201, f"order {killed}", True)
    for each in (key, failing, killed):
        assert (caller.effects[each], orders.count(each)) == (1, 1)


def test_a_server_that_wakes_up_late_commits_nothing(caller: Caller, orders: Orders) -> None:
    """Its key has gone to another request meanwhile, so its transaction is rolled back."""
    key, frozen = new_key(), caller.web
    with ThreadPoolExecutor(1) as client:
        late = client.submit(caller.post, key, then="frozen")
        caller.wait_held(key)
        os.kill(frozen.pid, signal.SIGSTOP)
        while not orders.may_be_written():  # it was in the middle of a renewal, and SQLite has one writer
            os.kill(frozen.pid, signal.SIGCONT)
            os.kill(frozen.pid, signal.SIGSTOP)
        caller.let_go(key)
        caller.serve()
        response = caller.until(key, 201, then="frozen")
        assert not is_replay(response)
        os.kill(frozen.pid, signal.SIGCONT)
        assert late.result().status_code == 500
    assert (caller.effects[key], orders.count(key)) == (2, 1)
    frozen.wait_for_log("LeaseLost")
    assert is_replay(caller.post(key, then="frozen"))


def test_a_rollback_gives_the_key_back(caller: Caller, orders: Orders) -> None:
    key = new_key()
    for _ in range(2):
        response = caller.until(key, 500, then="rollback")  # a WSGI handler ends after the client has its answer
        assert not is_replay(response)
    assert (caller.effects[key], orders.count(key)) == (2, 0)


@pytest.mark.parametrize("caller", ["asgi-memory", "wsgi-memory", "asgi-redis", "wsgi-redis"], indirect=True)
def test_a_transaction_that_cannot_hold_the_key_is_refused_in_words(caller: Caller, orders: Orders) -> None:
    key = new_key()
    assert caller.post(key, then="commit").status_code == 500
    caller.web.wait_for_log("which no transaction of your database reaches")
    assert orders.count(key) == 0
