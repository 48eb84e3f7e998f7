"""Outcomes that are stored together leave in Redis what they leave one by one."""

import random
from typing import Any

import pytest

from headrace.core import operations as ops
from headrace.core.states import State
from headrace.drivers.redis import RedisDriver
from headrace.stores.redis.keys import SUFFIXES, Keys
from headrace.stores.redis.records import text
from headrace.testing.clock import VirtualClock
from tests.process.redis_jobs import claim, enqueue, job, open_driver

JOBS = 60


def outcome_of(claimed: ops.ClaimedJob, rng: random.Random) -> ops.Outcome:
    """Mostly parked; some are stale, some end, some say more."""
    token = claimed.token + rng.choice((0, 0, 0, 0, 0, 1))
    state = rng.choice((State.PARKED, State.PARKED, State.PARKED, State.SUCCEEDED, State.SCHEDULED, State.READY))
    more: dict[str, Any] = {"reason": rng.choice(("", "circuit a", "circuit b", "ä" * 200))}
    if rng.random() < 0.2:
        more["trail"] = b'{"releases":1}'
    if rng.random() < 0.2:
        more["keep_us"] = 1_000_000
    if rng.random() < 0.2 or state is State.SCHEDULED:
        more["delay_us"] = 5_000_000
    return ops.Outcome(claimed.id, "q", token, state, **more)


def taken(driver: RedisDriver, clock: VirtualClock, rng: random.Random) -> list[ops.ClaimedJob]:
    """Claimed jobs: half of them with a memory; some have been cancelled, some are lost by the server."""
    names = [f"{n}" for n in range(JOBS)]
    for number, id in enumerate(names):
        driver.run(enqueue(job(id, priority=rng.randint(-2, 2), unique=None if number % 5 else f"u{id}")))
    first = driver.run(claim(1, JOBS // 2)).jobs
    back = (ops.Outcome(each.id, "q", each.token, State.READY, 0, b'{"snoozes":1}', 0, "back") for each in first)
    assert all(driver.run(ops.Settle("w", tuple(back))))
    clock.jump(rng.choice((-10, 0, 10)))  # tokens may be ahead of the clock
    jobs = driver.run(claim(2, JOBS)).jobs
    for id in rng.sample(names, 10):
        assert driver.run(ops.Cancel(id)) == "requested"
    return jobs


def contents(line: Any, keys: Keys) -> dict[str, Any]:
    """All that a queue has left, but the list that wakes."""
    found: dict[str, Any] = {"held": line.call(("HLEN", keys.held("q", "w")))}
    for suffix in SUFFIXES:
        key = keys.one("q", suffix)
        kind = text(line.call(("TYPE", key)))
        if kind == "hash":
            pairs = line.call(("HGETALL", key))
            found[suffix] = dict(zip(pairs[::2], pairs[1::2], strict=True))
        elif kind == "zset":
            found[suffix] = line.call(("ZRANGE", key, 0, -1, "WITHSCORES"))
    return found


def settled(url: str, name: str, seed: int, *, together: bool) -> tuple[list[bool], dict[str, Any]]:
    """The answers, and what is in the store afterwards."""
    rng, clock = random.Random(seed), VirtualClock()
    driver: RedisDriver = open_driver(url, name, now=clock)
    line, keys = driver._new_line(), Keys(name)
    try:
        jobs = taken(driver, clock, rng)
        for each in rng.sample(jobs, 5):
            line.call(("HDEL", keys.one("q", "jobs"), each.id))
        outcomes = tuple(outcome_of(each, rng) for each in jobs)
        if together:
            answers = driver.run(ops.Settle("w", outcomes))
        else:  # where one job comes twice, all are taken in turn
            *answers, again = driver.run(ops.Settle("w", (*outcomes, outcomes[-1])))
            assert not again
        return answers, contents(line, keys)
    finally:
        line.close()
        driver.close()


@pytest.mark.parametrize("seed", range(8))
def test_a_batch_leaves_what_its_outcomes_leave_in_turn(redis_url: str, unique_name: str, seed: int) -> None:
    together = settled(redis_url, f"{unique_name}a", seed, together=True)
    in_turn = settled(redis_url, f"{unique_name}b", seed, together=False)
    assert together == in_turn
    answers, found = together
    assert {True, False} == set(answers)
    assert len(found["parked_for"]) > JOBS // 4
