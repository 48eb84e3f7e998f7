"""Parked jobs as only a real server can try them: left by another version, spoiled, lost, in a full server."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.core import operations as ops
from headrace.core.parking import REASON, LookParked, ParkedFor, Unpark
from headrace.core.states import State
from headrace.drivers.redis import RedisDriver
from headrace.stores.contract import BATCH
from headrace.stores.plan import Call
from headrace.stores.redis.keys import Keys
from tests.process.redis_jobs import claim, enqueue, job, open_driver, settle
from tests.servers import RedisServer

Command = Callable[..., Any]

ODD_REASONS = (
    "",
    "a",
    "ab",
    "a\x00",
    "a\x00b",
    "a0",
    "a1" + "0" * 16 + "0",
    "0001a",
    "0002",
    ":",
    "\x7f",
    "\x00",
    "9" * 40,
    "\U0010ffff" * REASON,
)


@pytest.fixture
def steps() -> list[str]:
    """The names of the scripts that were sent."""
    return []


@pytest.fixture
def driver(redis_url: str, unique_name: str, steps: list[str]) -> Iterator[RedisDriver]:
    driver = open_driver(redis_url, unique_name)

    def observe(step: object) -> None:
        assert isinstance(step, Call)
        steps.append(step.script)

    driver.observe = observe
    yield driver
    driver.close()


@pytest.fixture
def foreign(driver: RedisDriver, unique_name: str) -> Iterator[Command]:
    """Another program on the same server, or another version of this one: it writes to a key of queue q."""
    line = driver._new_line()

    def command(name: str, suffix: str, *args: Any) -> Any:
        return line.call((name, f"{{{unique_name}:q}}:{suffix}", *args))

    yield command
    line.close()


def park(driver: RedisDriver, *names: str, reason: str = "r", **options: Any) -> None:
    driver.run(enqueue(*(job(name, **options) for name in names)))
    worker = f"parker of {names[0]}"
    taken = driver.run(claim(1, len(names), worker=worker)).jobs
    outcomes = tuple(ops.Outcome(each.id, "q", each.token, State.PARKED, reason=reason) for each in taken)
    assert all(driver.run(ops.Settle(worker, outcomes)))
    assert len(taken) == len(names)


def unpark(driver: RedisDriver, limit: int, reason: str = "r") -> int:
    return driver.run(Unpark(("q",), reason, limit))


def reasons(driver: RedisDriver) -> list[str]:
    found = driver.run(LookParked(("q",)))
    assert all(each == ParkedFor("q", each.reason) for each in found)
    return [each.reason for each in found]


def counts(driver: RedisDriver) -> dict[str, int | None]:
    return {each.reason: each.jobs for each in driver.run(LookParked(("q",), counting=True))}


def given_out(driver: RedisDriver) -> list[str]:
    return [each.id for each in driver.run(claim(1, BATCH, worker="taker")).jobs]


def test_nobody_looks_at_more_jobs_than_it_has_to(driver: RedisDriver, steps: list[str]) -> None:
    park(driver, *(f"a{n}" for n in range(40)))
    park(driver, *(f"b{n}" for n in range(40)), reason="s")
    steps.clear()
    assert reasons(driver) == ["r", "s"]
    assert counts(driver) == {"r": 40, "s": 40}
    assert unpark(driver, 3, "s") == 3
    assert steps == ["look_parked", "look_parked", "unpark"]
    assert given_out(driver) == ["b0", "b1", "b2"]


def test_thousands_come_back_in_steps(driver: RedisDriver, foreign: Command, steps: list[str]) -> None:
    names = [f"{n}" for n in range(BATCH)]
    park(driver, *names)
    park(driver, "last")
    steps.clear()
    assert unpark(driver, 10 * BATCH) == BATCH + 1
    assert steps == ["unpark"] * 2
    assert given_out(driver) == names
    assert [foreign("EXISTS", name) for name in ("parked", "parked_for")] == [0, 0]


@pytest.mark.parametrize("seed", range(3))
def test_reasons_and_places_are_never_mixed_up(driver: RedisDriver, foreign: Command, seed: int) -> None:
    rng = random.Random(seed)
    driver.run(enqueue(*(job(f"{n}", priority=rng.randint(-100, 100)) for n in range(100))))
    taken = driver.run(claim(1)).jobs
    parked: dict[str, list[str]] = {}
    for each in taken:
        parked.setdefault(rng.choice(ODD_REASONS), []).append(each.id)
    reason_of = {id: reason for reason, ids in parked.items() for id in ids}
    outcomes = [ops.Outcome(each.id, "q", each.token, State.PARKED, reason=reason_of[each.id]) for each in taken]
    rng.shuffle(outcomes)
    assert all(driver.run(ops.Settle("w", tuple(outcomes))))
    assert reasons(driver) == sorted(parked)
    for id in rng.sample(list(reason_of), 10):
        assert driver.run(ops.Cancel(id)) == "cancelled"
        parked[reason_of[id]].remove(id)
    assert counts(driver) == {reason: len(ids) for reason, ids in parked.items() if ids}
    for number, (reason, ids) in enumerate(parked.items()):
        half = len(ids) // 2
        assert (unpark(driver, half, reason), unpark(driver, BATCH, reason)) == (half, len(ids) - half)
        assert [each.id for each in driver.run(claim(number + 2, worker="v")).jobs] == ids
    assert [foreign("EXISTS", name) for name in ("parked", "parked_for")] == [0, 0]


def test_jobs_that_the_version_before_has_parked_come_back(
    driver: RedisDriver, foreign: Command, steps: list[str]
) -> None:
    """More of them than one step looks at; and others are parked beside them."""
    names = [f"{n}" for n in range(BATCH)]
    park(driver, *names)
    park(driver, *(f"more {name}" for name in names[:200]))
    park(driver, "s", reason="s")
    foreign("DEL", "parked_for")
    park(driver, "t", reason="t")
    steps.clear()
    assert reasons(driver) == ["r", "s", "t"]
    assert steps[:1] + steps[-1:] == ["look_parked"] * 2
    assert len(steps) > 5
    assert set(steps[1:-1]) == {"mend_parked"}
    foreign("DEL", "parked_for")
    assert counts(driver) == {"r": BATCH + 200, "s": 1, "t": 1}
    foreign("DEL", "parked_for")
    assert unpark(driver, 300) == 300
    assert given_out(driver) == names[:300]
    steps.clear()
    assert (unpark(driver, BATCH), unpark(driver, 9, "s"), unpark(driver, 9, "t")) == (BATCH - 100, 1, 1)
    assert steps == ["unpark"] * 3


def test_jobs_that_the_version_before_has_cancelled_are_gone(driver: RedisDriver, foreign: Command) -> None:
    """It leaves their entries, here as many as others are missing."""
    park(driver, "a", "b", reason="a")
    park(driver, "c", "d", reason="c")
    foreign("ZREM", "parked", "a", "b")
    foreign("HDEL", "jobs", "a", "b")
    entries = foreign("ZRANGE", "parked_for", 0, -1)
    foreign("ZREM", "parked_for", *(entry for entry in entries if entry[4:5] == b"c"))
    assert reasons(driver) == ["c"]
    assert unpark(driver, 9, "a") == 0
    assert unpark(driver, 9, "c") == 2
    assert given_out(driver) == ["c", "d"]


def test_a_job_of_which_nothing_is_left_is_dropped(driver: RedisDriver, foreign: Command) -> None:
    """The server has lost data."""
    park(driver, "a", "b", "c")
    foreign("HDEL", "jobs", "a")
    assert unpark(driver, 2) == 2
    assert given_out(driver) == ["b", "c"]
    assert [foreign("EXISTS", name) for name in ("parked", "parked_for", "ready")] == [0, 0, 0]


def test_a_job_that_is_parked_and_elsewhere_is_elsewhere(driver: RedisDriver, foreign: Command) -> None:
    park(driver, "a")
    driver.run(enqueue(job("b")))
    (b,) = driver.run(claim(1)).jobs
    foreign("ZADD", "parked", "1", "b")
    assert reasons(driver) == ["", "r"]
    assert unpark(driver, 9, "") == 0
    assert driver.run(settle([b])) == [True]
    assert reasons(driver) == ["r"]


def test_places_that_another_program_wrote_are_as_good_as_any(driver: RedisDriver, foreign: Command) -> None:
    scores = ("-9007199254740991", "-4611686018427387904", "-7", "-0", "1.5", "2", "9007199254740991", "inf", "1e300")
    park(driver, *scores)
    for score in scores:
        foreign("ZADD", "parked", score, score)
    assert unpark(driver, len(scores)) == len(scores)
    order = given_out(driver)
    assert sorted(order) == sorted(scores)
    near = [name for name in order if abs(float(name)) < 2**53]
    assert near == sorted(near, key=float)


@pytest.mark.parametrize("score", ["0", "1", "-inf"])
def test_entries_that_another_program_wrote_stop_nobody(driver: RedisDriver, foreign: Command, score: str) -> None:
    park(driver, "a", "b")
    entry = foreign("ZRANGE", "parked_for", 0, 0)[0]
    bad = [b"", b"x", b"9999", b"0001r", b"0001r:", b"0001r" + b"0" * 17, b"\xff", entry + b"x", b"0000" + entry[5:]]
    foreign("ZADD", "parked_for", *(each for name in bad for each in (score, name)))
    assert counts(driver) == {"r": 2}
    assert (unpark(driver, 1), unpark(driver, 9)) == (1, 1)
    foreign("ZADD", "parked_for", *(each for name in bad for each in (score, name)))
    assert (unpark(driver, 9), unpark(driver, 9, "")) == (0, 0)
    assert given_out(driver) == ["a", "b"]
    assert foreign("EXISTS", "parked_for") == 0


def test_a_full_server_lets_jobs_come_back(redis_server_factory: Callable[[], RedisServer], unique_name: str) -> None:
    """B036: also those that the version before has parked. They are worked off, and then there is room again."""
    server = redis_server_factory().start(maxmemory_policy="noeviction")
    driver = open_driver(server.url, unique_name)
    line = driver._new_line()
    try:
        park(driver, "a", "b", "c")
        line.call(("CONFIG", "SET", "maxmemory", "1mb"))  # less than it has taken already
        assert unpark(driver, 1) == 1
        line.call(("DEL", Keys(unique_name).one("q", "parked_for")))
        assert reasons(driver) == ["r"]
        assert unpark(driver, 1) == 1
        assert given_out(driver) == ["a", "b"]
    finally:
        line.close()
        driver.close()
