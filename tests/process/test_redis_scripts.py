"""Scripts as only a real server can try them: forgotten, in a full server, in the slots of a cluster."""

import re
import threading
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

from headrace.core import operations as ops
from headrace.core.states import State
from headrace.drivers.redis import RedisDriver
from headrace.errors import StoreFull, StoreMisconfigured, StoreUnavailable
from headrace.stores.plan import Call, Step
from headrace.stores.redis import RedisStore
from headrace.stores.redis.keys import SUFFIXES, Keys, scripts
from headrace.testing import conformance
from headrace.testing.clock import VirtualClock
from tests.process.redis_jobs import ask, claim, drain, enqueue, job, open_driver, settle
from tests.servers import RedisServer

Factory = Callable[[], RedisServer]

ODD_QUEUES = ("{x}", "a:b", "{}", "}{", "{", "a", "b}c", "%7B", "sp ace", "ö", "held:w")


@pytest.fixture
def driver(redis_url: str, unique_name: str) -> Iterator[RedisDriver]:
    driver = open_driver(redis_url, unique_name)
    yield driver
    driver.close()


def test_forgotten_scripts_are_never_noticed(redis_server_factory: Factory, unique_name: str) -> None:
    """B033: SCRIPT FLUSH again and again while 500 jobs with delays, retries and unique keys run."""
    server = redis_server_factory().start()
    driver = open_driver(server.url, unique_name)
    over = threading.Event()

    def flush() -> None:
        other = open_driver(server.url, unique_name)
        line = other._new_line()
        while not over.is_set():
            line.call(("SCRIPT", "FLUSH"))
        line.close()

    flusher = threading.Thread(target=flush)
    flusher.start()
    try:
        for start in range(0, 500, 50):
            jobs = [
                job(str(n), delay_us=n % 3 * 1000, unique=f"k{n}" if n % 5 == 0 else None)
                for n in range(start, start + 50)
            ]
            assert [one.status for one in driver.run(enqueue(*jobs))] == ["new"] * 50
        runs: dict[str, int] = {}
        number = 0
        while driver.run(ops.Queues())[0].ready + driver.run(ops.Queues())[0].scheduled:
            number += 1
            for each in driver.run(claim(number)).jobs:
                runs[each.id] = runs.get(each.id, 0) + 1
                again = State.SCHEDULED if runs[each.id] == 1 and int(each.id) % 7 == 0 else State.SUCCEEDED
                assert driver.run(settle([each], again)) == [True]
    finally:
        over.set()
        flusher.join()
        driver.close()
    assert runs == {str(n): 2 if n % 7 == 0 else 1 for n in range(500)}


@cache
def slot(key: str) -> int:
    """The slot of a key in a cluster: CRC16 (XMODEM) of what stands between the first brace and the next."""
    data = key.encode()
    start = data.find(b"{")
    if start >= 0 and (end := data.find(b"}", start + 1)) > start + 1:
        data = data[start + 1 : end]
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1) ^ 0x1021 if crc & 0x8000 else crc << 1
    return crc & 0x3FFF


def test_the_slot_is_that_of_the_specification() -> None:
    assert slot("123456789") == 0x31C3 & 0x3FFF
    assert slot("{user1000}.following") == slot("user1000")
    assert slot("foo{}{bar}") == slot("foo{}{bar}") != slot("bar")


@pytest.mark.parametrize("guarantee", conformance.GUARANTEES.values(), ids=conformance.GUARANTEES.keys())
def test_on_a_cluster_every_step_stays_in_one_slot(
    guarantee: conformance.Guarantee, redis_url: str, unique_name: str
) -> None:
    """B034: the keys of every step of every operation, recorded while the whole conformance suite holds."""
    seen: list[tuple[str, ...]] = []
    clock = VirtualClock()
    store = RedisStore(name=unique_name, now=clock, cluster=True)
    driver = RedisDriver(redis_url, store, observe=lambda step: seen.append(_keys(step)))
    try:
        guarantee(conformance.Harness(driver.run, clock))
    finally:
        driver.close()
    assert all(len({slot(key) for key in keys}) == 1 for keys in seen if keys)


def _keys(step: Step) -> tuple[str, ...]:
    assert isinstance(step, Call)
    return step.keys


def test_odd_names_of_queues_neither_meet_nor_split(redis_url: str, unique_name: str) -> None:
    """B034: braces and colons in the names of queues, of workers and of the app."""
    seen: list[tuple[str, ...]] = []
    store = RedisStore(name=f"{unique_name}:{{a}}", cluster=True)
    driver = RedisDriver(redis_url, store, observe=lambda step: seen.append(_keys(step)))
    try:
        driver.run(enqueue(*[job(f"in {queue}", queue) for queue in ODD_QUEUES]))
        assert [view.name for view in driver.run(ops.Queues())] == sorted(ODD_QUEUES)
        for queue in ODD_QUEUES:
            assert drain(driver.run, worker="{w}", queues=(queue,)) == [f"in {queue}"]
    finally:
        driver.close()
    assert all(len({slot(key) for key in keys}) == 1 for keys in seen if keys)
    assert len({Keys("n").tag(queue) for queue in ODD_QUEUES}) == len(ODD_QUEUES)
    assert Keys("a:b").tag("c") != Keys("a").tag("b:c")


def test_a_full_server_refuses_jobs_and_lets_workers_drain_it(redis_server_factory: Factory, unique_name: str) -> None:
    """B036: a worker that starts only then, retries, failures and heartbeats included."""
    server = redis_server_factory().start(maxmemory="5mb", maxmemory_policy="noeviction")
    driver = open_driver(server.url, unique_name)
    stored = _fill(driver)
    with pytest.raises(StoreFull, match="give the server memory"):
        driver.run(enqueue(job("one more", body=b"x" * 100_000)))
    driver.close()
    assert 1000 < stored < 20_000
    worker = open_driver(server.url, unique_name)
    try:
        first = worker.run(claim(1, 30, worker="v")).jobs
        held = tuple(ops.Held(each.id, each.queue, each.token) for each in first)
        assert worker.run(ops.Beat("v", ("q",), 30_000_000, held, 2)).lost == []
        worker.run(ops.Settle("v", tuple(_ended(each, n) for n, each in enumerate(first))))
        worker.run(ops.Rescue(("q",)))
        worker.run(ops.Promote(("q",)))
        assert len(drain(worker.run)) + 10 >= stored
        assert worker.run(ops.Leave("v", ("q",))) == 0
        view = worker.run(ops.Queues())[0]
        assert (view.ready, view.scheduled, view.running, view.failed) == (0, 0, 0, 10)
        assert worker.run(enqueue(job("room again")))[0].status == "new"
    finally:
        worker.close()


def _fill(driver: RedisDriver) -> int:
    """Enqueue by tens until the server refuses; how many jobs it took."""
    for stored in range(0, 20_000, 10):
        try:
            driver.run(enqueue(*[job(str(stored + n), body=b"x" * 500) for n in range(10)]))
        except StoreFull:
            return stored
    raise AssertionError("it never was full")


def _ended(each: ops.ClaimedJob, n: int) -> ops.Outcome:
    state = (State.READY, State.SCHEDULED, State.FAILED)[n % 3]
    return ops.Outcome(each.id, each.queue, each.token, state, trail=b"{}", reason="test")


def test_a_full_server_refuses_an_edit_whole(redis_server_factory: Factory, unique_name: str) -> None:
    server = redis_server_factory().start(maxmemory_policy="noeviction")
    driver = open_driver(server.url, unique_name)
    line = driver._new_line()
    try:
        driver.run(enqueue(job("a", body=b"was")))
        driver.run(settle(driver.run(claim(1)).jobs, State.FAILED, trail=b"old"))
        before = driver.run(ops.Get("a"))
        line.call(("CONFIG", "SET", "maxmemory", "1mb"))  # less than it has taken already
        with pytest.raises(StoreFull):
            driver.run(ops.Edit("a", "q", b"was", b"now", b"new"))
        assert driver.run(ops.Get("a")) == before
    finally:
        line.close()
        driver.close()


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
def test_a_server_that_may_evict_is_refused(redis_server_factory: Factory, unique_name: str, policy: str) -> None:
    """B036: whether or not a limit is set yet."""
    server = redis_server_factory().start(maxmemory_policy=policy)
    driver = open_driver(server.url, unique_name)
    with pytest.raises(
        StoreMisconfigured, match=f"maxmemory-policy is {policy}.*CONFIG SET maxmemory-policy noeviction"
    ):
        driver.run(ops.Prepare())
    accepted = open_driver(server.url + "?allow_eviction=1", unique_name)
    assert accepted.run(enqueue(job("a")))[0].status == "new"
    levels = {finding.subject: finding.level for finding in accepted.run(ops.Inspect())}
    accepted.close()
    assert levels["eviction"] == "error"


def test_a_replica_is_refused(redis_server_factory: Factory, unique_name: str) -> None:
    primary = redis_server_factory().start()
    replica = redis_server_factory().start()
    assert ask(replica.port, f"REPLICAOF 127.0.0.1 {primary.port}\r\n".encode()).startswith("+OK")
    with pytest.raises(StoreMisconfigured, match="replica"):
        open_driver(replica.url, unique_name).run(ops.Prepare())


def test_a_primary_that_became_a_replica_is_left(redis_server_factory: Factory, unique_name: str) -> None:
    """A failover: the next operations look for a primary anew, and work again as soon as there is one."""
    server = redis_server_factory().start()
    driver = open_driver(server.url, unique_name)
    driver.run(enqueue(job("a")))
    assert ask(server.port, b"REPLICAOF 127.0.0.1 1\r\n").startswith("+OK")
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            driver.run(enqueue(job("b")))
    assert ask(server.port, b"REPLICAOF NO ONE\r\n").startswith("+OK")
    assert driver.run(enqueue(job("b")))[0].status == "new"
    driver.close()


def test_inspect_tells_what_the_settings_promise(redis_server_factory: Factory, unique_name: str) -> None:
    def durability(server: RedisServer) -> tuple[str, str]:
        driver = open_driver(server.url, unique_name)
        findings = {finding.subject: finding for finding in driver.run(ops.Inspect())}
        driver.close()
        assert set(findings) == {"server", "durability", "eviction", "replication"}
        return findings["durability"].level, findings["durability"].fix

    assert durability(redis_server_factory().start(appendonly=True)) == ("ok", "")
    assert durability(redis_server_factory().start(appendonly=True, appendfsync="everysec")) == (
        "info",
        "appendfsync always",
    )
    assert durability(redis_server_factory().start()) == ("warning", "appendonly yes")


def test_the_ready_jobs_of_a_queue_are_one_key(driver: RedisDriver, unique_name: str) -> None:
    """An autoscaler measures it with ZCARD, whatever the priorities."""
    driver.run(enqueue(*[job(str(n), "mail", priority=n) for n in range(-2, 3)]))
    line = driver._new_line()
    assert line.call(("ZCARD", f"{{{unique_name}:mail}}:ready")) == 5
    line.close()


def test_the_wake_list_never_grows(driver: RedisDriver, unique_name: str) -> None:
    for n in range(20):
        driver.run(enqueue(job(str(n))))
    line = driver._new_line()
    assert line.call(("LLEN", driver.store.wake_key("q"))) == 1
    line.close()


def test_a_happy_job_leaves_nothing_but_its_tombstone(driver: RedisDriver, unique_name: str) -> None:
    driver.run(enqueue(job("a"), job("b", unique="k", unique_us=10**9), job("c", delay_us=-1)))
    assert len(drain(driver.run)) == 3
    line = driver._new_line()
    names = {key.decode().rpartition(":")[2] for key in line.call(("KEYS", f"{{{unique_name}*"))}
    line.close()
    assert names == {"queues", "workers", "claims", "meta", "short0", "wake"}


def test_scripts_open_with_their_purpose_and_name_every_key() -> None:
    """The map of keys is in library.lua; each script says which it touches."""
    texts = scripts()
    assert len(texts) >= 15
    for name, text in texts.items():
        assert text.startswith("-- Purpose: "), name
        own = text[text.rindex("-- Purpose: ") :]
        assert "\n-- KEYS: " in own or "\n-- KEYS:" in own, name
        assert "#!" not in text, name  # Redis 6.2 does not know it
    words: dict[str, Any] = {"library": texts["claim"].split("local call")[0]}
    for suffix in (*SUFFIXES, "held:WORKER"):
        listed = suffix[:-1] + "0/1" if suffix[-1] in "01" else suffix
        assert re.search(rf"^--   (\w+, )*{listed}[, ]", words["library"], re.MULTILINE), suffix
    assert f"local STRIDE = {len(SUFFIXES)}\n" in texts["claim"]
    places = dict(re.findall(r"(\w+) = KEYS\[at \+ (\d+)\]", texts["claim"]))
    assert places == {suffix: str(place) for place, suffix in enumerate(SUFFIXES, 1)}
