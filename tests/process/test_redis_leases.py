"""Leases, claims and the server's clock: what only Redis does in a way of its own."""

from collections.abc import Callable, Iterator

import pytest

from headrace.core import operations as ops
from headrace.core.states import State
from headrace.drivers.redis import RedisDriver
from headrace.errors import ConfigError, StoreError, StoreFull
from headrace.stores.plan import Call, Step
from headrace.stores.redis import RedisStore
from headrace.testing.clock import MICROSECONDS, VirtualClock
from tests.process.redis_jobs import LEASE, claim, enqueue, job, open_driver, settle
from tests.servers import RedisServer

Factory = Callable[[], RedisServer]
QUEUES = ("mail", "hooks")


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture(params=[False, True], ids=["whole", "by queue"])
def driver(
    redis_url: str, unique_name: str, clock: VirtualClock, request: pytest.FixtureRequest
) -> Iterator[RedisDriver]:
    driver = open_driver(redis_url, unique_name, now=clock, cluster=request.param)
    yield driver
    driver.close()


def _held(jobs: list[ops.ClaimedJob]) -> tuple[ops.Held, ...]:
    return tuple(ops.Held(each.id, each.queue, each.token) for each in jobs)


def test_an_id_in_two_queues_is_two_jobs(driver: RedisDriver) -> None:
    """An order's number as the id in each of a worker's queues: what befalls one is not said of the other."""
    driver.run(enqueue(job("17", "mail"), job("17", "hooks")))
    mail, hooks = _held(driver.run(claim(1, queues=QUEUES)).jobs)
    assert (mail.queue, hooks.queue) == QUEUES
    driver.run(ops.Cancel("17", "hooks"))
    beaten = driver.run(ops.Beat("w", QUEUES, LEASE, (mail, hooks), 2))
    assert (beaten.lost, beaten.cancel, beaten.released) == ([], [hooks], 0)
    assert driver.run(ops.Settle("w", (ops.Outcome(mail.id, "mail", mail.token, State.SUCCEEDED),))) == [True]
    beaten = driver.run(ops.Beat("w", QUEUES, LEASE, (hooks, mail), 2))
    assert (beaten.lost, beaten.cancel, beaten.released) == ([mail], [hooks], 0)
    beaten = driver.run(ops.Beat("w", QUEUES, LEASE, (mail,), 2))
    assert (beaten.lost, beaten.cancel, beaten.released) == ([mail], [], 1)


def test_a_clock_that_jumps_in_the_midst_of_a_rescue_rescues_nobody(
    redis_url: str, unique_name: str, clock: VirtualClock
) -> None:
    """The dead were looked for while the clock was right; when they would be given back, it is not any more."""

    def jump(step: Step) -> None:
        if isinstance(step, Call) and step.script == "holdings":
            clock.jump(3600)

    driver = RedisDriver(redis_url, RedisStore(unique_name, clock), observe=jump)
    driver.run(enqueue(job("a")))
    driver.run(claim(1))
    clock.advance(LEASE / MICROSECONDS)
    until = clock() + 10 * MICROSECONDS
    assert driver.run(ops.Rescue(("q",), not_after_us=until)).jobs == []
    assert [(view.worker, view.held) for view in driver.run(ops.Workers())] == [("w", 1)]
    assert [orphan.id for orphan in driver.run(ops.Rescue(("q",))).jobs] == ["a"]
    driver.close()


def test_a_full_server_whose_clock_was_set_back_still_settles(
    redis_server_factory: Factory, unique_name: str, clock: VirtualClock
) -> None:
    """B036: the tokens are ahead of the clock then, which is written down; what frees memory must come first."""
    server = redis_server_factory().start(maxmemory="5mb", maxmemory_policy="noeviction")
    driver = open_driver(server.url, unique_name, now=clock)
    driver.run(enqueue(*[job(str(n)) for n in range(4)]))
    jobs = driver.run(claim(1)).jobs
    clock.jump(-3600)
    for size in (50_000, 500, 0):  # to the brim
        with pytest.raises(StoreFull):
            _fill(driver, size)
    assert driver.run(settle(jobs[:2])) == [True, True]
    assert driver.run(settle(jobs[2:3], State.FAILED)) == [True]
    assert driver.run(settle(jobs[3:], State.READY)) == [True]
    driver.close()


def _fill(driver: RedisDriver, size: int) -> None:
    for n in range(10_000):
        driver.run(enqueue(job(f"{size} {n}", "other", body=b"x" * size)))


def test_what_cannot_be_stored_leaves_no_trace_of_its_neighbours(driver: RedisDriver) -> None:
    """Also where the neighbours go to a queue that comes first, and so in a step of their own."""
    for bad in (job("bad", "hooks", priority=101), ops.NewJob("bad", "hooks", "t" * 10_000, b"{}")):
        with pytest.raises(ConfigError):
            driver.run(enqueue(job("good", "mail", unique="k"), bad))
        assert driver.run(ops.Get("good")) is None
    assert driver.run(enqueue(job("good", "mail", unique="k")))[0].status == "new"


def test_a_script_that_fails_midway_leaves_neither_jobs_nor_keys(driver: RedisDriver, unique_name: str) -> None:
    """A step that is broken in its third job, as no version of ours sends it."""
    store = driver.store
    plan = store.plan(enqueue(*[job(str(n), unique=f"k{n}", unique_us=10) for n in range(3)]))
    steps = [plan.send(None)]
    if isinstance(steps[0], Call) and steps[0].script == "SADD":
        steps.append(plan.send(3))
    step = steps[-1]
    assert isinstance(step, Call)
    assert step.script == "enqueue"
    line = driver._new_line()
    with pytest.raises(StoreError):
        line.execute(Call(step.script, step.keys, (*step.args[:-1], b"ex" + step.args[-1][2:])))
    written = {key.decode().rpartition(":")[2] for key in line.call(("KEYS", f"{{{unique_name}:q}}:*"))}
    line.close()
    assert written <= {"meta"}


def test_times_beyond_what_a_record_holds_are_the_last_it_holds(driver: RedisDriver) -> None:
    far = 10**19
    driver.run(enqueue(job("a", due_us=far), job("b", delay_us=far), job("c", due_us=far, unique="k", unique_us=far)))
    views = driver.run(ops.List(State.SCHEDULED)).jobs
    assert sorted(view.id for view in views) == ["a", "b", "c"]
    assert all(10**17 < view.due_us < 10**18 for view in views)
    assert [view.unique for view in views if view.unique] == ["k"]
    assert driver.run(enqueue(job("d", unique="k")))[0] == ops.Enqueued("duplicate", "c")


def test_tombstones_of_long_ago_are_gone_after_one_prune(driver: RedisDriver, unique_name: str) -> None:
    clock = driver.store.now  # type: ignore[attr-defined]
    driver.run(enqueue(*[job(str(n)) for n in range(3)]))
    assert driver.run(settle(driver.run(claim(1)).jobs)) == [True] * 3
    clock.advance(61)
    assert driver.run(ops.Prune()) == ops.Pruned(0, more=False)
    clock.advance(121)
    assert driver.run(ops.Prune()) == ops.Pruned(0, more=False)
    line = driver._new_line()
    assert line.call(("EXISTS", *[f"{{{unique_name}:q}}:short{turn}" for turn in (0, 1)])) == 0
    line.close()


def test_prune_goes_on_while_stray_keys_are_left(driver: RedisDriver, unique_name: str) -> None:
    """A server that lost its jobs, but not their keys."""
    driver.run(enqueue(job("lives", unique="live", unique_us=1)))
    line = driver._new_line()
    uniques = f"{{{unique_name}:q}}:uniques"
    line.call(("HSET", uniques, *[part for n in range(3_000) for part in (f"k{n}", b"0" * 18 + b"%d" % n)]))
    rounds = 1
    while driver.run(ops.Prune(limit=500)).more:
        rounds += 1
        assert rounds < 100
    assert rounds > 3
    assert line.call(("HKEYS", uniques)) == [b"live"]
    line.close()
