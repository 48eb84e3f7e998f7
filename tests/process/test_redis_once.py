"""Once records as only a real server can try them: foreign writes, a full server, what is left behind."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.core import operations as ops
from headrace.core.once_records import EndOnce, LookOnce, OnceClaim, OnceTaken, RenewOnce, TakeOnce
from headrace.core.states import State
from headrace.drivers.redis import RedisDriver
from headrace.errors import StoreFull
from headrace.stores.contract import BATCH
from headrace.testing.clock import MICROSECONDS, VirtualClock
from tests.process.redis_jobs import LEASE, claim, enqueue, job, open_driver, settle
from tests.servers import RedisServer

Command = Callable[..., Any]

PRINT = b"p" * 32
HOUR = 3600 * MICROSECONDS
FIELD = b"task\x00k"
SOON = b"%018d" % (2 * 10**15)  # after the virtual clock, whatever it shows
HELD_BY_NOBODY = b"%018d" % 7 + SOON * 3 + b"10006" + PRINT + b"nobody-"
UNREADABLE = (
    b"",
    b"x",
    b"\xff" * 200,
    b"9" * 200,
    b"0" * 77,
    b"0" * 76 + b"6" + PRINT + b"owner-",  # one byte of the owner is missing
    b"0" * 72 + b"40005" + PRINT + b"owner-",  # no such state
    b"0" * 72 + b"2-005" + PRINT + b"owner-",
    b"0" * 72 + b"20005" + PRINT + b"owner!",
    b"0" * 36 + b"nan" * 12 + b"20005" + PRINT + b"owner+",
    b"009" + b"0" * 69 + b"20005" + PRINT + b"owner-",  # a fence that could not be counted up
)


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
    """Another program on the same server. A key that opens with `:` is of queue q, else of no queue."""
    line = driver._new_line()

    def command(name: str, suffix: str, *args: Any) -> Any:
        tag = f"{{{unique_name}:q}}" if suffix.startswith(":") else f"{{{unique_name}}}:"
        return line.call((name, tag + suffix, *args))

    yield command
    line.close()


def for_job(each: ops.ClaimedJob, key: str = "k") -> OnceClaim:
    return OnceClaim("task", key, PRINT, each.id, each.token, each.queue)


def by_lease(owner: str, key: str = "k") -> OnceClaim:
    return OnceClaim("task", key, PRINT, owner, lease_us=LEASE)


def ended(fence: int, key: str = "k", **options: Any) -> ops.OnceEnd:
    options.setdefault("result", b"1")
    return ops.OnceEnd("task", key, fence, "done", keep_us=HOUR, **options)


def take(driver: RedisDriver, *claims: OnceClaim) -> list[OnceTaken]:
    return driver.run(TakeOnce(claims))


@pytest.mark.parametrize("raw", UNREADABLE)
def test_a_record_that_cannot_be_read_is_free_with_a_higher_fence(
    driver: RedisDriver, foreign: Command, clock: VirtualClock, raw: bytes
) -> None:
    driver.run(enqueue(job("a"), job("b")))
    a, b = driver.run(claim(1)).jobs
    foreign("HSET", ":once", FIELD, raw)
    foreign("HSET", "once", FIELD, raw)
    assert driver.run(LookOnce("task", "k", "q")) is None
    assert driver.run(LookOnce("task", "k")) is None
    assert not driver.run(RenewOnce("task", "k", "owner", LEASE))
    assert not driver.run(EndOnce("owner", ended(0)))
    assert driver.run(settle([a], once=ended(0))) == [False]
    for mine, other in ((for_job(a), for_job(b)), (by_lease("me"), by_lease("you"))):
        first, second = take(driver, mine, other)
        assert (first.status, second.status) == ("mine", "held")
        assert first.fence > clock()
    assert driver.run(settle([a], once=ended(clock() + 1))) == [True]
    assert driver.run(EndOnce("me", ended(clock() + 1)))


@pytest.mark.parametrize("raw", UNREADABLE)
def test_a_record_that_was_spoiled_is_its_holders_no_more(driver: RedisDriver, foreign: Command, raw: bytes) -> None:
    """The job goes on running: nothing of it was changed."""
    driver.run(enqueue(job("a"), job("b")))
    a, b = driver.run(claim(1)).jobs
    fence = take(driver, for_job(a))[0].fence
    foreign("HSET", ":once", FIELD, raw)
    assert driver.run(settle([a, b], once=ended(fence))) == [False, False]
    assert driver.run(settle([b])) == [True]
    assert [view.id for view in driver.run(ops.List(State.RUNNING)).jobs] == ["a"]
    assert take(driver, for_job(a))[0].status == "mine"


def test_a_holder_that_never_was_holds_nothing(driver: RedisDriver, foreign: Command) -> None:
    """Neither among the jobs of a queue nor where there are none."""
    driver.run(enqueue(job("a"), job("b")))
    a, b = driver.run(claim(1)).jobs
    for key in (":once", "once"):
        foreign("HSET", key, FIELD, HELD_BY_NOBODY)
    foreign("ZADD", ":running", "1", "nobody")
    view = driver.run(LookOnce("task", "k", "q"))
    assert view is not None
    assert (view.state, view.owner, view.fence) == ("held", "nobody", 7)
    assert [taken.status for taken in take(driver, for_job(a), for_job(b))] == ["mine", "held"]
    assert take(driver, by_lease("me"))[0].status == "mine"


def test_of_what_a_record_and_its_time_say_pruning_goes_by_the_time(
    driver: RedisDriver, foreign: Command, clock: VirtualClock
) -> None:
    driver.run(enqueue(job("a")))
    for key in (":once_until", "once_until"):
        for n, score in enumerate(("-inf", "-1e300", "0", "1.5", "inf", "1e300", "9007199254740993")):
            foreign("ZADD", key, score, b"%d" % n)
        foreign("ZADD", key, "1", b"\xff\x00")
    for _ in range(10):
        if not driver.run(ops.Prune(limit=2)).more:
            break
    assert foreign("ZCARD", ":once_until") == foreign("ZCARD", "once_until") == 3


def test_no_record_has_a_lifetime_of_the_servers(driver: RedisDriver, foreign: Command, clock: VirtualClock) -> None:
    """The server evicts keys that have one; what is over is forgotten by pruning, and then nothing is left."""
    driver.run(enqueue(job("a"), job("b")))
    a, _ = driver.run(claim(1)).jobs
    fence = take(driver, for_job(a))[0].fence
    lease = take(driver, by_lease("me"), by_lease("me", "other"))[0].fence
    assert driver.run(RenewOnce("task", "k", "me", LEASE))
    assert driver.run(settle([a], once=ended(fence)))
    assert driver.run(EndOnce("me", ended(lease)))
    names = (":once", ":once_until", "once", "once_until")
    assert [foreign("PTTL", name) for name in names] == [-1] * 4
    assert [foreign("HLEN", name) for name in (":once", "once")] == [1, 2]
    clock.advance(40 * 24 * 3600)
    assert not driver.run(ops.Prune()).more
    assert [foreign("EXISTS", name) for name in names] == [0] * 4


def test_a_record_ends_with_its_job_also_when_another_worker_settles_it(driver: RedisDriver) -> None:
    driver.run(enqueue(job("a")))
    (a,) = driver.run(claim(1, worker="v")).jobs
    fence = take(driver, for_job(a))[0].fence
    follow = (job("then"),)
    wrong, right = (
        ops.Settle("w", (ops.Outcome(a.id, "q", a.token, State.SUCCEEDED, once=ended(one), then=follow),))
        for one in (fence + 1, fence)
    )
    assert driver.run(wrong) == [False]
    assert driver.run(right) == [True]
    view = driver.run(LookOnce("task", "k", "q"))
    assert view is not None
    assert (view.state, view.result) == ("done", b"1")
    assert [each.id for each in driver.run(claim(1)).jobs] == ["then"]


def test_thousands_of_records_and_followers_go_in_one_operation(driver: RedisDriver) -> None:
    count = BATCH + 7
    driver.run(enqueue(*(job(f"{n}", ("q", "p")[n % 2]) for n in range(count))))
    jobs = [each for number in (1, 2) for each in driver.run(claim(number, BATCH, queues=("q", "p"))).jobs]
    taken = take(driver, *(for_job(each, each.id) for each in jobs))
    assert [each.status for each in taken] == ["mine"] * count
    outcomes = tuple(
        ops.Outcome(
            each.id,
            each.queue,
            each.token,
            State.SUCCEEDED,
            once=ended(one.fence, each.id),
            then=tuple(job(f"{each.id}-{n}", each.queue) for n in range(3)),
        )
        for each, one in zip(jobs, taken, strict=True)
    )
    assert driver.run(ops.Settle("w", outcomes)) == [True] * count
    assert sum(view.ready for view in driver.run(ops.Queues())) == 3 * count


def test_a_full_server_lets_jobs_end_with_their_records(
    redis_server_factory: Callable[[], RedisServer], unique_name: str
) -> None:
    """B036: jobs take and end records, and a lease that was taken is renewed and ended; new leases are refused."""
    server = redis_server_factory().start(maxmemory_policy="noeviction")
    driver = open_driver(server.url, unique_name)
    try:
        driver.run(enqueue(job("a"), job("b")))
        a, b = driver.run(claim(1)).jobs
        lease = take(driver, by_lease("me"))[0].fence
        line = driver._new_line()
        line.call(("CONFIG", "SET", "maxmemory", "1mb"))  # less than it has taken already
        line.close()
        with pytest.raises(StoreFull):
            take(driver, by_lease("you", "other"))
        taken = take(driver, for_job(a), for_job(b, "k2"))
        assert [each.status for each in taken] == ["mine", "mine"]
        done = ops.Outcome("a", "q", a.token, State.SUCCEEDED, once=ended(taken[0].fence))
        failed = ops.Outcome(
            "b", "q", b.token, State.FAILED, once=ended(taken[1].fence, "k2"), then=(job("then", unique="u"),)
        )
        assert driver.run(ops.Settle("w", (done, failed))) == [True, True]
        assert driver.run(RenewOnce("task", "k", "me", LEASE))
        assert driver.run(EndOnce("me", ended(lease)))
        assert [each.id for each in driver.run(claim(2)).jobs] == ["then"]
    finally:
        driver.close()
