"""Servers that are killed, clients that go away, stores that are away, and a crowd that comes at once."""

from __future__ import annotations

import socket
import sqlite3
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode

import pytest

from headrace.core.once_records import OnceClaim, TakeOnce
from tests.http.calling import Caller, is_replay, kind_of, new_key
from tests.http.conftest import FACTORY
from tests.http.site import LARGE, LEASE
from tests.waiting import wait_until

SHELLS = ("asgi", "wsgi")
STORES = ("memory", "sqlite", "redis", "postgres", "mysql")
CROWD = 30

each_shell = pytest.mark.parametrize("shell", SHELLS)
each_store = pytest.mark.parametrize("kind", STORES)
each_lasting_store = pytest.mark.parametrize("kind", [kind for kind in STORES if kind != "memory"])


@each_store
@each_shell
def test_of_thirty_requests_at_once_one_runs(serve: FACTORY, shell: str, kind: str) -> None:
    """The others are told to wait, or have its answer."""
    caller = serve(shell, kind)
    key = new_key()
    with ThreadPoolExecutor(CROWD) as crowd:
        responses = list(crowd.map(lambda _: caller.post(key), range(CROWD)))
    assert caller.effects[key] == 1
    assert Counter((response.status_code, is_replay(response)) for response in responses)[201, False] == 1
    (first,) = [response for response in responses if response.status_code == 201 and not is_replay(response)]
    for response in responses:
        if response is first:
            continue
        if response.status_code == 409:
            assert kind_of(response) == "in-progress"
            assert 1 <= int(response.headers["Retry-After"]) <= LEASE
        else:
            assert (response.status_code, response.content) == (201, first.content)
    assert is_replay(caller.post(key))
    large, again = caller.twice(new_key(), then="large")
    assert (again.content, len(again.content), is_replay(again)) == (large.content, LARGE, True)


@each_lasting_store
def test_of_a_crowd_before_two_servers_one_runs(serve: FACTORY, kind: str) -> None:
    """One of ASGI and one of WSGI: they understand each other's records."""
    one = serve("asgi", kind)
    servers = (one, one.beside("wsgi"))
    key = new_key()
    with ThreadPoolExecutor(CROWD) as crowd:
        responses = list(crowd.map(lambda number: servers[number % 2].post(key), range(CROWD)))
    assert one.effects[key] == 1
    assert [response.status_code for response in responses if not is_replay(response)].count(201) == 1
    assert {response.status_code for response in responses} <= {201, 409}
    again = [server.post(key) for server in servers]
    assert [is_replay(response) for response in again] == [True, True]
    assert again[0].content == again[1].content


@each_lasting_store
@each_shell
def test_the_key_of_a_killed_server_is_free_after_its_lease(serve: FACTORY, shell: str, kind: str) -> None:
    """B153: 409 with Retry-After before, executed after."""
    caller = serve(shell, kind)
    key = new_key()
    with ThreadPoolExecutor(1) as client:
        lost = client.submit(caller.post, key, then="held")
        caller.wait_held(key)
        before = caller.post(key, then="held")
        assert (before.status_code, kind_of(before)) == (409, "in-progress")
        assert 1 <= int(before.headers["Retry-After"]) <= LEASE
        caller.web.kill()
        assert lost.exception() is not None
    caller.let_go(key)
    caller.serve()
    after = caller.until(key, 201, then="held")
    assert not is_replay(after)
    assert is_replay(caller.post(key, then="held"))
    assert caller.effects[key] == 2


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
@each_shell
def test_a_handler_that_takes_longer_than_its_lease_keeps_its_key(serve: FACTORY, shell: str, kind: str) -> None:
    caller = serve(shell, kind)
    key, other = new_key(), new_key()
    with ThreadPoolExecutor(1) as client:
        first = client.submit(caller.post, key, then="held")
        caller.wait_held(key)
        _wait_a_lease(caller, other)
        assert caller.post(key, then="held").status_code == 409
        caller.let_go(key)
        assert first.result().status_code == 201
    assert is_replay(caller.post(key, then="held"))
    assert caller.effects[key] == 1


def _wait_a_lease(caller: Caller, key: str) -> None:
    """Until a record that was taken now, for longer than a lease, and is not renewed, is free."""
    claims = [OnceClaim("test", key, b"f" * 32, owner, lease_us=LEASE * 1_250_000) for owner in ("one", "two")]
    with caller.settings.headrace() as app:
        assert app.driver.run(TakeOnce((claims[0],)))[0].status == "mine"
        wait_until(lambda: app.driver.run(TakeOnce((claims[1],)))[0].status == "mine", 30, "a lease to be over")


@each_shell
def test_an_answer_whose_client_has_gone_is_there_for_the_next_one(serve: FACTORY, shell: str) -> None:
    """B157: a stream goes on to its end."""
    caller = serve(shell, "sqlite")
    key = new_key()
    with _half_a_request(caller, key, "slow"):
        caller.wait_held(key)
    caller.let_go(key)  # the client has closed its connection
    again = caller.until(key, 201, then="slow", body=b"")
    assert again.text.startswith("first,0,1,")
    assert again.text.endswith("99,")
    assert is_replay(again)
    assert caller.effects[key] == 1


def _half_a_request(caller: Caller, key: str, then: str) -> socket.socket:
    """A connection with a whole request, whose answer is not read."""
    url = caller.client.base_url
    connection = socket.create_connection((url.host, url.port))
    query = urlencode({"effect": key, "then": then})
    lines = [f"POST /plain/orders?{query} HTTP/1.1", "Host: test", f"Idempotency-Key: {key}", "Content-Length: 0"]
    connection.sendall("\r\n".join([*lines, "", ""]).encode())
    return connection


class Locked:
    """A store that cannot be reached: somebody else has the file."""

    def __init__(self, caller: Caller) -> None:
        self._connection = sqlite3.connect(caller.folder / "shop.db", isolation_level=None)

    def __enter__(self) -> None:
        self._connection.execute("begin exclusive")

    def __exit__(self, *error: object) -> None:
        self._connection.execute("rollback")
        self._connection.close()


@each_shell
def test_while_the_store_is_away_nothing_runs_unless_the_settings_say_so(serve: FACTORY, shell: str) -> None:
    caller = serve(shell, "sqlite")
    key = new_key()
    assert caller.post(key).status_code == 201  # makes the tables
    with Locked(caller):
        refused = caller.post(other := new_key())
        assert (refused.status_code, kind_of(refused)) == (503, "store-unavailable")
        assert int(refused.headers["Retry-After"]) >= 1
        assert caller.effects[other] == 0
        assert caller.post(other, "/unguarded/orders").status_code == 201
        assert caller.post(None, effect=other).status_code == 201
    assert is_replay(caller.post(key))
    assert not is_replay(caller.post(other))
    assert caller.effects[other] == 3


@each_shell
def test_an_answer_that_could_not_be_stored_is_stored_once_the_store_is_back(serve: FACTORY, shell: str) -> None:
    caller = serve(shell, "sqlite")
    key = new_key()
    caller.post(new_key())
    with ThreadPoolExecutor(1) as client:
        first = client.submit(caller.post, key, then="held")
        caller.wait_held(key)
        with Locked(caller):
            caller.let_go(key)
            assert first.result().status_code == 201  # it is what has happened
    again = caller.until(key, 201, then="held")
    assert (again.content, is_replay(again)) == (first.result().content, True)
    assert caller.effects[key] == 1
