"""What another program wrote into our keys: it stops nobody, and what it spoiled can be looked at."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.core import operations as ops
from headrace.core.once_records import LookOnce, OnceClaim, TakeOnce
from headrace.core.parking import LookParked, Unpark
from headrace.core.states import State
from headrace.drivers.redis import RedisDriver
from headrace.testing.clock import MICROSECONDS, VirtualClock
from tests.process.redis_jobs import LEASE, claim, enqueue, job, open_driver, settle

Command = Callable[..., Any]

BAD_RECORDS = (
    b"",
    b"x",
    b"not a record",
    b"9" * 43,
    b"9" * 44,
    b"0" * 44,
    b"1e5 " * 11 + b"{}",
    b"0" * 36 + b"-11000001",
    b"\xff" * 60,
)
BAD_STATES = (b"", b"?", b"1" * 57, b"nan" * 20, b"9" * 58, b"0" * 58, b"0" * 57 + b"x", b"\x00" * 58)
BAD_IDS = ("bad", b"\xff", b"\xc3", b"a\x00b", b"\xed\xa0\x80", "", b"ok\xf5", "q:w")
BAD_SCORES = ("inf", "-inf", "1e300", "-1e300", "1.5", "-7", "9007199254740993", "0")
BAD_ROWS = (
    b"",
    b"x",
    b"1 1",
    b"9" * 18,
    b"0" * 19 + b"x 1",
    b"0" * 19 + b"1 ",
    b"0" * 19 + b"1 inf",
    b"0" * 19 + b"1 0x1",
    b"\xff 1",
)
BAD_KEYS = (b"task\x00k1", b"task\x00k2", b"", b"-", b"\xff")
BAD_ONCE = (
    b"",
    b"x",
    b"0" * 77,
    b"9" * 120,
    b"0" * 72 + b"10002" + b"p" * 32 + b"ok-",
    b"0" * 18 + b"1" * 54 + b"20003" + b"p" * 32 + b"b\xffd+{}",
    b"0" * 72 + b"39999" + b"p" * 32 + b"ok-",
)
BAD_PARKED = (
    b"",
    b"x",
    b"9999",
    b"00000",
    b"0000" + b"1" * 17 + b"bad",
    b"0001r0" + b"0" * 16 + b"ok\xf5",
    b"\xff" * 30,
)
BAD_NUMBERS = (b"", b"x", b"nan", b"inf", b"-5", b"1e400", b"9" * 40)


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
    """Another program on the same server: foreign("HSET", "jobs", ...) writes to a key of queue q."""
    line = driver._new_line()

    def command(name: str, suffix: str, *args: Any) -> Any:
        return line.call((name, f"{{{unique_name}:q}}:{suffix}", *args))

    yield command
    line.close()


def listed(driver: RedisDriver, state: State) -> list[ops.JobView]:
    views: list[ops.JobView] = []
    cursor = None
    while True:
        page = driver.run(ops.List(state, limit=2, cursor=cursor, bodies=True))
        views += page.jobs
        cursor = page.next
        if cursor is None:
            return views
        assert len(views) < 1_000, "the listing never ends"


@pytest.mark.parametrize("raw", BAD_RECORDS)
def test_a_record_that_cannot_be_read_fails_at_once_and_is_kept(
    driver: RedisDriver, foreign: Command, clock: VirtualClock, raw: bytes
) -> None:
    driver.run(enqueue(job("ok")))
    foreign("HSET", "jobs", "bad", raw)
    foreign("ZADD", "ready", "1", "bad")
    taken = driver.run(claim(1)).jobs
    readable = raw.startswith(b"00") and raw.isdigit() and len(raw) >= 44
    assert [each.id for each in taken] == (["bad", "ok"] if readable else ["ok"])
    held = tuple(ops.Held(each.id, each.queue, each.token) for each in taken)
    assert driver.run(ops.Beat("w", ("q",), LEASE, held, 2)) == ops.Beaten(clock(), [], [], 0)
    if not readable:
        failed = driver.run(ops.List(State.FAILED, reason="unreadable", bodies=True)).jobs
        assert [(view.id, view.task, view.body) for view in failed] == [("bad", "", raw)]
        assert driver.run(ops.Replay(("bad",))).replayed == ["bad"]
        assert [each.body for each in driver.run(claim(2)).jobs] == [raw]
    assert len(listed(driver, State.RUNNING)) == 2
    assert driver.run(ops.Leave("w", ("q",))) == 2


@pytest.mark.parametrize("raw", [raw for raw in BAD_RECORDS if raw != b"0" * 44])
def test_a_record_that_cannot_be_read_can_be_edited(driver: RedisDriver, foreign: Command, raw: bytes) -> None:
    foreign("HSET", "jobs", "bad", raw)
    foreign("ZADD", "failed", "1", "bad")
    assert not driver.run(ops.Edit("bad", "q", raw + b"?", b"{}", b"trail"))
    assert driver.run(ops.Edit("bad", "q", raw, b"{}", b"trail"))
    assert driver.run(ops.Replay(("bad",), "q")).replayed == ["bad"]
    assert [each.body for each in driver.run(claim(1)).jobs] == [b"{}"]


def test_an_id_that_is_no_text_fails_under_one_that_is(driver: RedisDriver, foreign: Command) -> None:
    driver.run(enqueue(job("ok"), job("ö\x00"), job("\ud7ff\ue000\U0010ffff")))
    record = foreign("HGET", "jobs", "ok")
    for id in (b"\xff", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80", b"a\xe2\x82"):
        foreign("HSET", "jobs", id, record)
        foreign("ZADD", "ready", "1", id)
    taken = driver.run(claim(1)).jobs
    assert [each.id for each in taken] == ["ok", "ö\x00", "\ud7ff\ue000\U0010ffff"]
    assert driver.run(settle(taken)) == [True, True, True]
    names = {r"\xff", r"\xed\xa0\x80", r"\xf4\x90\x80\x80", r"\xc0\x80", r"a\xe2\x82"}
    assert {view.id for view in listed(driver, State.FAILED)} == names
    assert driver.run(ops.Forget(tuple(names))) == 5
    assert driver.run(ops.Queues())[0].failed == 0


def test_a_state_that_cannot_be_read_is_kept_as_the_trail(driver: RedisDriver, foreign: Command) -> None:
    driver.run(enqueue(job("a")))
    foreign("HSET", "state", "a", b"what?")
    assert driver.run(claim(1)).jobs == []
    view = driver.run(ops.Get("a"))
    assert view is not None
    assert (view.state, view.reason, view.trail, view.body) == (State.FAILED, "unreadable", b"what?", b"{}")
    assert driver.run(ops.Replay(("a",))).replayed == ["a"]
    taken = driver.run(claim(2)).jobs
    assert driver.run(settle(taken)) == [True]


@pytest.mark.parametrize("row", BAD_ROWS)
@pytest.mark.parametrize("way", ["beat", "leave", "rescue"])
def test_a_holding_that_cannot_be_read_is_given_up(
    driver: RedisDriver, foreign: Command, clock: VirtualClock, row: bytes, way: str
) -> None:
    driver.run(enqueue(job("a"), job("b")))
    (mine,) = driver.run(claim(5, 1)).jobs
    foreign("ZREM", "ready", "b")
    foreign("ZADD", "running", "1", "b")
    for id in ("b", b"\xff", "without a record"):
        foreign("HSET", "held:w", id, row)
    if way == "beat":
        held = (ops.Held(mine.id, "q", mine.token),)
        beaten = driver.run(ops.Beat("w", ("q",), LEASE, held, 6))
        assert (beaten.lost, beaten.released) == ([], 1)
        assert driver.run(settle([mine])) == [True]
    elif way == "leave":
        assert driver.run(ops.Leave("w", ("q",))) == 2
    else:
        clock.advance(60)
        orphans = driver.run(ops.Rescue(("q",))).jobs
        assert sorted(orphan.id for orphan in orphans) == ["a", "b"]
        assert driver.run(ops.Workers()) == []
    assert foreign("EXISTS", "held:w") == 0
    assert "b" in [each.id for each in driver.run(claim(1, worker="v")).jobs]


@pytest.mark.parametrize("seed", range(3))
def test_a_foreign_writer_in_every_field_stops_nobody(
    driver: RedisDriver, foreign: Command, clock: VirtualClock, seed: int
) -> None:
    """Whatever stands there: claims, beats, settles, rescues, listings and pruning of the other jobs go on."""
    rng = random.Random(seed)
    for turn in range(1, 61):
        good = [f"{turn}-{n}" for n in range(3)]
        driver.run(enqueue(job(good[0]), job(good[1], unique=good[1]), job(good[2], delay_us=turn % 3)))
        for _ in range(rng.randint(1, 12)):
            _spoil(rng, foreign)
        clock.advance(0.001)
        if rng.random() < 0.5:
            driver.run(enqueue(job(f"more-{turn}", unique=rng.choice(("k1", "k2")), unique_us=1)))
        _look(driver)
        _work_off(driver, clock, turn, set(good), rescued=turn % 4 == 0)
        _look(driver)
        for _ in range(50):
            if not driver.run(ops.Prune(age_us=0, most=0)).more:
                break
        else:
            raise AssertionError("pruning never ends")


def _work_off(driver: RedisDriver, clock: VirtualClock, turn: int, good: set[str], *, rescued: bool) -> None:
    """Claim until the good ones of this turn were run, one of them after its worker had died."""
    worker, number, done = f"w{turn}", 0, set[str]()
    while not good <= done:
        number += 1
        assert number < 30, f"{good - done} are never given out"
        taken = driver.run(claim(number, worker=worker)).jobs
        again = {each.id: each for each in driver.run(claim(number, worker=worker)).jobs}
        assert [again[each.id] for each in taken] == taken
        held = tuple(ops.Held(each.id, each.queue, each.token) for each in taken)
        assert driver.run(ops.Beat(worker, ("q",), LEASE, held, number + 1)).lost == []
        if rescued and good & {each.id for each in taken}:
            rescued = False
            clock.advance(LEASE / MICROSECONDS)
            assert {each.id for each in taken} <= {orphan.id for orphan in driver.run(ops.Rescue(("q",))).jobs}
            continue
        ends = _take_records(driver, taken)
        outcomes = tuple(
            ops.Outcome(each.id, "q", each.token, State.SUCCEEDED, keep_us=number % 2, once=ends.get(each.id))
            for each in taken
        )
        assert all(driver.run(ops.Settle(worker, outcomes)))
        done |= {each.id for each in taken}
    driver.run(ops.Leave(worker, ("q",)))


def _take_records(driver: RedisDriver, taken: list[ops.ClaimedJob]) -> dict[str, ops.OnceEnd]:
    """One of two records for each job, and how those end that are taken."""
    if not taken:
        return {}
    keys = [f"k{1 + n % 2}" for n in range(len(taken))]
    claims = (
        OnceClaim("task", key, b"p" * 32, each.id, each.token, "q") for key, each in zip(keys, taken, strict=True)
    )
    answers = driver.run(TakeOnce(tuple(claims)))
    return {
        each.id: ops.OnceEnd("task", key, answer.fence, "done", b"{}", keep_us=1)
        for key, each, answer in zip(keys, taken, answers, strict=True)
        if answer.status == "mine"
    }


def _look(driver: RedisDriver) -> None:
    for key in ("k1", "k2"):
        driver.run(LookOnce("task", key, "q"))
    assert [view.name for view in driver.run(ops.Queues())] == ["q"]
    for state in State:
        for view in listed(driver, state):
            driver.run(ops.Get(view.id))
    driver.run(ops.Workers())
    driver.run(ops.Edit("bad", "q", b"", b"x", b"{}"))
    driver.run(ops.Replay(("bad", "ok")))
    for parked in driver.run(LookParked(("q",))):
        driver.run(Unpark(("q",), parked.reason, 1))
    driver.run(ops.Cancel("bad", keep_us=1))
    driver.run(ops.Promote(("q",)))


WORKERS = ("w1", "w8", "w12", "dead")
FIELDS: dict[str, tuple[Any, tuple[Any, ...]]] = {  # key: whose fields or members, and their values or scores
    "jobs": (BAD_IDS, BAD_RECORDS),
    "state": (BAD_IDS, BAD_STATES),
    "waiting": (BAD_IDS, BAD_NUMBERS),
    "claims": (WORKERS, BAD_NUMBERS),
    "uniques": (("k1", "k2", b"\xff"), (b"", b"x", b"0" * 18 + b"bad", b"9" * 18 + b"\xff")),
    "unique_of": (BAD_IDS, (b"", b"s", b"e" + b"x" * 18 + b"k1", b"s" + b"0" * 18 + b"k2")),
    "short0": (BAD_IDS, BAD_NUMBERS),
    "day1": (BAD_IDS, BAD_NUMBERS),
    "cancels": (BAD_IDS, BAD_NUMBERS),
    "meta": (("floor", "short", "short_at", "day", "day_at", "sweep"), BAD_NUMBERS),
    "ready": (BAD_IDS, BAD_SCORES),
    "due": (BAD_IDS, BAD_SCORES),
    "running": (BAD_IDS, BAD_SCORES),
    "parked": (BAD_IDS, BAD_SCORES),
    "parked_for": (BAD_PARKED, BAD_SCORES),
    "failed": (BAD_IDS, BAD_SCORES),
    "succeeded": (BAD_IDS, BAD_SCORES),
    "kept": (BAD_IDS, BAD_SCORES),
    "workers": ((*WORKERS, b"w\xff"), BAD_SCORES),
    "once": (BAD_KEYS, BAD_ONCE),
    "once_until": (BAD_KEYS, BAD_SCORES),
} | {f"held:{worker}": (BAD_IDS, BAD_ROWS) for worker in WORKERS}


def _spoil(rng: random.Random, foreign: Command) -> None:
    suffix = rng.choice(list(FIELDS))
    names, values = FIELDS[suffix]
    name, value = rng.choice(names), rng.choice(values)
    if values is BAD_SCORES:
        foreign("ZADD", suffix, value, name)
    else:
        foreign("HSET", suffix, name, value)
