"""Registers as only a real server can try them: other writers in between, foreign writes, a full server."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.core import operations as ops
from headrace.core.registers import Amend, Change, Changed, LookRegisters
from headrace.drivers.redis import RedisDriver
from headrace.errors import StoreFull
from headrace.stores.contract import BATCH
from headrace.stores.plan import Call
from headrace.testing.clock import VirtualClock
from tests.process.redis_jobs import enqueue, job, open_driver
from tests.servers import RedisServer

Command = Callable[..., Any]

KEYS = ("registers", "registers_names", "registers_until")
UNREADABLE = (b"", b"x", b"9" * 17, b"-" + b"9" * 17, b"nan" * 6 + b"body", b"\xff" * 40, b" " * 18)


class Append(Change, frozen=True, kw_only=True):
    text: bytes
    keep_us: int = 3600_000_000

    def apply(self, body: bytes | None, now_us: int) -> Changed:
        return Changed((body or b"") + self.text, body, self.keep_us)


class Erase(Change, frozen=True, kw_only=True):
    def apply(self, body: bytes | None, now_us: int) -> Changed:
        return Changed(None, body)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def driver(redis_url: str, unique_name: str, clock: VirtualClock) -> Iterator[RedisDriver]:
    driver = open_driver(redis_url, unique_name, now=clock)
    yield driver
    driver.close()


@pytest.fixture
def foreign(driver: RedisDriver, unique_name: str) -> Iterator[Command]:
    """Another program on the same server."""
    line = driver._new_line()

    def command(name: str, suffix: str, *args: Any) -> Any:
        return line.call((name, f"{{{unique_name}}}:{suffix}", *args))

    yield command
    line.close()


def append(driver: RedisDriver, *names: str, text: bytes = b"x", **options: Any) -> list[bytes | None]:
    return driver.run(Amend(tuple(Append(register=name, text=text, **options) for name in names)))


def look(driver: RedisDriver, **options: Any) -> dict[str, bytes]:
    return {view.name: view.body for view in driver.run(LookRegisters(**options))}


def test_who_was_overtaken_applies_its_changes_again(
    driver: RedisDriver, redis_url: str, unique_name: str, clock: VirtualClock
) -> None:
    """By a write to any of them; and one that would change nothing but has read what is over by then does, too."""
    other = open_driver(redis_url, unique_name, now=clock)
    between: list[Callable[[], Any]] = []
    steps: list[Call] = []

    def observe(step: Any) -> None:
        steps.append(step)
        if len(steps) > 1 and between:
            between.pop(0)()

    driver.observe = observe
    append(driver, "r", "s", text=b"1")
    assert len(steps) == 2
    between += [
        lambda: append(other, "s", text=b"2"),
        lambda: other.run(Amend((Erase(register="r"),))),
        lambda: append(other, "t"),
    ]
    steps.clear()
    assert append(driver, "r", "s", text=b"3") == [None, b"12"]
    assert look(other) == {"r": b"3", "s": b"123", "t": b"x"}
    assert len(steps) == 4
    assert {step.script for step in steps} == {"amend"}
    other.close()


def test_what_changes_nothing_is_one_step(driver: RedisDriver) -> None:
    append(driver, "r")
    steps: list[Any] = []
    driver.observe = steps.append
    assert append(driver, "r", text=b"") == [b"x"]
    assert driver.run(Amend((Erase(register="nothing"),))) == [None]
    assert driver.run(Amend(())) == []
    assert len(steps) == 2


@pytest.mark.parametrize("entry", UNREADABLE)
def test_what_cannot_be_read_is_no_register(driver: RedisDriver, foreign: Command, entry: bytes) -> None:
    append(driver, "r", "s", "t")
    foreign("HSET", "registers", "r", entry, "s", entry)
    assert look(driver) == {"t": b"x"}
    assert append(driver, "r") == [None]
    assert driver.run(Amend((Erase(register="s"),))) == [None]
    assert look(driver) == {"r": b"x", "t": b"x"}
    assert foreign("HEXISTS", "registers", "s") == 0


def test_names_that_are_no_text_are_passed_over(driver: RedisDriver, foreign: Command) -> None:
    append(driver, "a", "ab", "ac", "b", "\U0010ffff")
    entry = foreign("HGET", "registers", "a")
    for name in (b"\xff", b"a\xff", b"a\xc3", b"aa\xff", b"", b"no entry"):
        foreign("ZADD", "registers_names", "0", name)
        if name not in {b"no entry", b""}:
            foreign("HSET", "registers", name, entry)
    foreign("ZADD", "registers_until", "inf", b"\xff")
    assert list(look(driver)) == ["a", "ab", "ac", "b", "\U0010ffff"]
    assert list(look(driver, prefix="a")) == ["a", "ab", "ac"]
    pages, after = [], ""
    while page := list(look(driver, limit=2, after=after)):
        pages += page
        after = page[-1]
    assert pages == ["a", "ab", "ac", "b", "\U0010ffff"]
    assert look(driver, limit=0) == {}
    assert look(driver, prefix="a", after="b") == {}
    assert list(look(driver, prefix="b", after="a")) == ["b"]


def test_thousands_of_registers_are_written_listed_and_forgotten(
    driver: RedisDriver, foreign: Command, clock: VirtualClock
) -> None:
    """More than one step takes, and more than Lua unpacks at once."""
    count = 4 * BATCH + 100
    names = [f"{n:05}" for n in range(count)]
    assert append(driver, *names, keep_us=10) == [None] * count
    clock.advance_us(5)
    assert append(driver, *names[::2], keep_us=10) == [b"x"] * (count // 2)
    assert list(look(driver, limit=count)) == names
    clock.advance_us(6)
    assert list(look(driver, limit=count)) == names[::2]
    clock.advance_us(10)
    assert driver.run(ops.Prune(limit=count - 1)).more
    assert not driver.run(ops.Prune(limit=1)).more
    assert [foreign("EXISTS", key) for key in KEYS] == [0, 0, 0]


def test_no_register_has_a_lifetime_of_the_servers(driver: RedisDriver, foreign: Command) -> None:
    """The server evicts keys that have one."""
    append(driver, "r", "s")
    assert [foreign("PTTL", key) for key in KEYS] == [-1, -1, -1]
    driver.run(Amend((Erase(register="s"), Erase(register="r"))))
    assert [foreign("EXISTS", key) for key in KEYS] == [0, 0, 0]


def test_a_full_server_takes_changes_of_registers(
    redis_server_factory: Callable[[], RedisServer], unique_name: str
) -> None:
    """B036: workers that work it off need their circuits."""
    server = redis_server_factory().start(maxmemory_policy="noeviction")
    driver = open_driver(server.url, unique_name)
    line = driver._new_line()
    try:
        line.call(("CONFIG", "SET", "maxmemory", "1mb"))  # less than it has taken already
        with pytest.raises(StoreFull):
            driver.run(enqueue(job("a")))
        assert append(driver, "r", "s") == [None, None]
        assert append(driver, "r") == [b"x"]
        assert look(driver) == {"r": b"xx", "s": b"x"}
    finally:
        line.close()
        driver.close()
