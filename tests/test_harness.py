"""The harness itself: a server that is killed comes back, and the proxy's faults are what they are called."""

import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import redis
from redis.exceptions import ConnectionError as Gone
from redis.exceptions import TimeoutError as Late

from tests.proxy import Proxy
from tests.servers import RedisServer, ServerDied
from tests.waiting import await_until, wait_until


@pytest.fixture
def server(redis_server_factory: Callable[[], RedisServer]) -> RedisServer:
    return redis_server_factory()


def client(url: str, timeout: float = 5) -> redis.Redis:
    return redis.Redis.from_url(url, socket_timeout=timeout, retry=None, protocol=2)


def test_an_acknowledged_write_outlives_a_kill(server: RedisServer) -> None:
    server.start(appendonly=True)
    with client(server.url) as before:
        before.set("a", "1")
    port = server.port
    server.kill()
    assert not server.answers()
    server.restart()
    assert server.port == port
    with client(server.url) as after:
        assert after.get("a") == b"1"


def test_a_frozen_server_answers_after_the_thaw(server: RedisServer) -> None:
    server.start()
    server.freeze()
    with client(server.url, timeout=0.2) as hurried, pytest.raises(Late):
        hurried.ping()
    server.thaw()
    wait_until(server.answers, what="the thawed server")


def test_a_server_is_stopped_twice_and_even_frozen(server: RedisServer) -> None:
    server.start(maxmemory_policy="noeviction")
    server.freeze()
    server.stop()
    server.stop()
    assert not server.running


def test_a_server_that_cannot_start_says_why(server: RedisServer) -> None:
    with pytest.raises(ServerDied, match="no-such-setting"):
        server.start(no_such_setting=1)


def test_two_servers_are_two(redis_server: RedisServer, server: RedisServer, unique_name: str) -> None:
    server.start()
    with client(redis_server.url) as one, client(server.url) as other:
        one.set(unique_name, "1")
        assert other.get(unique_name) is None


@pytest.fixture
def proxy(redis_url: str, proxy_factory: Callable[[str], Proxy]) -> Proxy:
    return proxy_factory(redis_url)


def test_the_proxy_is_late(proxy: Proxy) -> None:
    with client(proxy.url) as through:
        through.ping()
        proxy.latency = 0.05
        began = time.monotonic()
        through.ping()
    assert time.monotonic() - began >= 0.1


def test_the_proxy_cuts_and_welcomes_again(proxy: Proxy) -> None:
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=5) as held:
        held.sendall(b"PING\r\n")
        assert held.recv(64).startswith(b"+PONG")
        proxy.cut()
        with pytest.raises(ConnectionResetError):
            held.recv(64)
    with client(proxy.url) as through:
        assert through.ping()
    assert proxy.accepted == 2


def test_the_proxy_refuses_until_it_does_not(proxy: Proxy) -> None:
    port = proxy.port
    proxy.refuse()
    with client(proxy.url) as through:
        with pytest.raises(Gone, match="refused"):
            through.ping()
        proxy.refuse(False)
        assert through.ping()
    assert proxy.port == port


def test_the_proxy_swallows(proxy: Proxy) -> None:
    with client(proxy.url, timeout=0.2) as through:
        through.ping()
        proxy.swallow()
        with pytest.raises(Late):
            through.ping()
        proxy.swallow(False)
        assert through.ping()


def test_the_proxy_drops_one_reply_of_a_request_carried_out(proxy: Proxy, unique_name: str) -> None:
    with client(proxy.url) as through:
        proxy.drop_reply(containing=b"INCR")
        with pytest.raises(Gone):
            through.incr(unique_name)
        assert proxy.dropped == 1
        assert through.incr(unique_name) == 2


def test_the_proxy_loses_a_request_before_it_arrives(proxy: Proxy, unique_name: str) -> None:
    with client(proxy.url) as through:
        proxy.drop_request(containing=b"INCR", skip=1)
        assert through.incr(unique_name) == 1
        with pytest.raises(Gone):
            through.incr(unique_name)
        assert proxy.dropped == 1
        assert not proxy.forgive()
        assert through.incr(unique_name) == 2
        proxy.drop_reply(containing=b"INCR")
        assert proxy.forgive()
        assert through.incr(unique_name) == 3


def test_waiting_in_vain_says_for_what() -> None:
    with pytest.raises(AssertionError, match="for the moon"):
        wait_until(lambda: False, timeout=0.01, what="the moon")


async def test_waiting_takes_plain_and_async_conditions() -> None:
    answers = iter([None, "yes", "yes"])

    async def later() -> str | None:
        return next(answers)

    assert await await_until(later) == "yes"
    assert await await_until(lambda: next(answers)) == "yes"


def test_sqlite_url_has_an_absolute_path(sqlite_url: str, sqlite_path: Path) -> None:
    assert sqlite_url == f"sqlite:///{sqlite_path}"
    assert sqlite_url.startswith("sqlite:////")
