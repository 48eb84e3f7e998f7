"""What the store knows, as Prometheus scrapes it."""

import asyncio
import logging
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from headrace import Headrace, WrongColour, __version__
from headrace.circuits import Circuit
from headrace.core import operations as ops
from headrace.core.hold import Convict, register_of
from headrace.core.operations import Operation
from headrace.core.registers import Amend
from headrace.core.states import State
from headrace.errors import StoreUnavailable
from headrace.observe.metrics import StoreCollector
from tests.cases.conftest import url_of
from tests.contract.stores import DATABASES
from tests.observe.scraping import Samples, fetched, fetched_openly, parsed, scraped, served
from tests.public.drivers import WatchedDriver

STATES = ("closed", "open", "half_open", "forced_open", "forced_closed")


@pytest.fixture(params=["memory", "sqlite"])
def app(request: pytest.FixtureRequest, unique_name: str) -> Iterator[Headrace]:
    """An app without tasks."""
    with Headrace(url_of(request.param, request), name=unique_name, busy_timeout=1) as app:
        yield app


def put(app: Headrace, *jobs: ops.NewJob) -> None:
    app.driver.run(ops.Enqueue(jobs))


def job(id: str, queue: str = "mail", *, delay_s: int = 0) -> ops.NewJob:
    return ops.NewJob(id, queue, "mail", b"{}", delay_us=delay_s * 1_000_000)


def claim(app: Headrace, worker: str, count: int, queue: str = "mail") -> tuple[ops.ClaimedJob, ...]:
    return tuple(app.driver.run(ops.Claim(worker, 1, (queue,), count, 30_000_000)).jobs)


def settle(app: Headrace, worker: str, jobs: tuple[ops.ClaimedJob, ...], state: State, reason: str) -> None:
    outcomes = tuple(ops.Outcome(one.id, one.queue, one.token, state, reason=reason) for one in jobs)
    assert app.driver.run(ops.Settle(worker, outcomes)) == [True] * len(jobs)


def park(app: Headrace, reason: str, count: int = 1, queue: str = "mail") -> None:
    put(app, *(job(f"{reason} {queue} {number}", queue) for number in range(count)))
    worker = f"parks {reason} {queue}"
    settle(app, worker, claim(app, worker, count, queue), State.PARKED, reason)


def call_in_vain(circuit: Circuit) -> None:
    with pytest.raises(OSError, match="no"), circuit.call():
        raise OSError("no")


def states_of(found: Samples, circuit: str) -> list[str]:
    assert {key[2] for key in found if key[:2] == ("headrace_circuit_state", circuit)} == set(STATES)
    return [state for state in STATES if found["headrace_circuit_state", circuit, state] == 1]


def transitions_of(found: Samples, circuit: str) -> dict[str, float]:
    return {state: found["headrace_circuit_transitions_total", circuit, state] for state in STATES}


@pytest.mark.parametrize("app", ["memory", "sqlite", "redis", *DATABASES], indirect=True)
def test_all_of_it_on_each_store(app: Headrace) -> None:
    smtp = app.circuit("smtp", window=1)
    app.task(name="mail", queue="mail", circuit=smtp)(lambda: None)
    park(app, "circuit smtp", 3)
    put(app, *(job(f"failed {number}") for number in range(2)))
    settle(app, "w", claim(app, "w", 2), State.FAILED, "OSError")
    put(app, *(job(f"running {number}") for number in range(4)))
    claim(app, "other", 4)
    before_us = app.clock.unix_us()
    put(app, job("ready"), *(job(f"later {number}", delay_s=3600) for number in range(5)))
    put(app, job("elsewhere", "reports"))
    call_in_vain(smtp)
    convicted = [Convict(register=register_of("mail"), task="mail", version="v1", job=id, after=2) for id in ("a", "b")]
    app.driver.run(Amend(tuple(convicted)))

    with served(app) as url:
        found, openly = fetched(url), fetched_openly(url)
    assert openly == found
    counts = {state: found[f"headrace_queue_{state}", "mail"] for state in ops.QueueView.__struct_fields__[1:6]}
    assert counts == {"ready": 1, "scheduled": 5, "running": 4, "parked": 3, "failed": 2}
    assert found["headrace_queue_ready", "reports"] == 1
    oldest = found["headrace_queue_oldest_ready_timestamp_seconds", "mail"]
    assert abs(oldest * 1e6 - before_us) < 60_000_000  # two clocks, and a slow machine
    assert states_of(found, "smtp") == ["open"]
    assert transitions_of(found, "smtp") == {**dict.fromkeys(STATES, 0), "open": 1}
    assert found["headrace_circuit_parked_jobs", "smtp"] == 3
    assert found["headrace_task_held", "mail"] == 1
    assert found["headrace_workers",] >= 1
    assert found["headrace_up",] == found["headrace_build_info", __version__] == 1


def test_what_is_known_begins_with_0(app: Headrace) -> None:
    """So that the first opening of a circuit is an increase, and a rule has something to look at."""
    app.circuit("smtp")
    app.task(name="mail", aliases=["post"], queue="mail")(lambda: None)
    found = scraped(app)
    assert {key: number for key, number in found.items() if number} == {
        ("headrace_up",): 1,
        ("headrace_build_info", __version__): 1,
        ("headrace_circuit_state", "smtp", "closed"): 1,
    }
    assert transitions_of(found, "smtp") == dict.fromkeys(STATES, 0)
    zeros = {("headrace_workers",), ("headrace_task_held", "mail"), ("headrace_circuit_parked_jobs", "smtp")}
    zeros |= {(f"headrace_queue_{state}", "mail") for state in ("ready", "scheduled", "running", "parked", "failed")}
    assert zeros <= set(found)
    assert ("headrace_task_held", "post") not in found
    assert not [key for key in found if key[0] == "headrace_queue_oldest_ready_timestamp_seconds"]


def test_each_transition_is_counted_once(app: Headrace) -> None:
    smtp = app.circuit("smtp", window=3, open_for=30)
    with served(app) as url:
        counted = [transitions_of(fetched(url), "smtp")]
        for _ in range(3):
            call_in_vain(smtp)
        counted.append(transitions_of(fetched(url), "smtp"))
        counted.append(transitions_of(fetched(url), "smtp"))  # a scrape moves nothing
        smtp.force_open("maintenance")
        found = fetched(url)
        counted.append(transitions_of(found, "smtp"))
        assert states_of(found, "smtp") == ["forced_open"]
        smtp.reset("done")
        counted.append(transitions_of(fetched(url), "smtp"))
    opened = {"open": 1}
    forced = {**opened, "forced_open": 1}
    expected: list[dict[str, float]] = [{}, opened, opened, forced, {**forced, "closed": 1}]
    assert counted == [dict.fromkeys(STATES, 0) | one for one in expected]


def test_a_circuit_of_other_code_is_told_of(app: Headrace) -> None:
    app.circuits.named("bank").force_open("theirs")
    assert states_of(scraped(app), "bank") == ["forced_open"]


def test_parked_jobs_of_circuits_that_share_queues(app: Headrace) -> None:
    """Each is told of its own, also where jobs of the same queue are parked for something else."""
    for name in ("smtp", "bank", "sms"):
        app.circuit(name)
    park(app, "circuit smtp", 2, "mail")
    park(app, "circuit smtp", 3, "news")
    park(app, "circuit bank", 1, "pay")
    counts = {key[1]: number for key, number in scraped(app).items() if key[0] == "headrace_circuit_parked_jobs"}
    assert counts == {"smtp": 5, "bank": 1, "sms": 0}
    park(app, "held mail v1", 1, "news")
    park(app, "circuit sms", 4, "news")
    counts = {key[1]: number for key, number in scraped(app).items() if key[0] == "headrace_circuit_parked_jobs"}
    assert counts == {"smtp": 5, "bank": 1, "sms": 4}


def test_a_task_is_held_until_it_is_freed(app: Headrace) -> None:
    app.task(name="mail")(lambda: None)
    for task in ("mail", "theirs"):
        app.driver.run(Amend((Convict(register=register_of(task), task=task, version="", job="a", after=1),)))
    found = scraped(app)
    assert found["headrace_task_held", "mail"] == found["headrace_task_held", "theirs"] == 1
    app.holds.free("mail")
    assert scraped(app)["headrace_task_held", "mail"] == 0


def test_a_worker_whose_lease_is_over_is_none(app: Headrace) -> None:
    put(app, job("a"), job("b"))
    app.driver.run(ops.Claim("gone", 1, ("mail",), 1, 0))
    assert scraped(app)["headrace_workers",] == 0
    claim(app, "alive", 1)
    assert scraped(app)["headrace_workers",] == 1


@pytest.mark.parametrize("queue", ['say "hi"', "back\\slash", "two\nlines", "\\n", "grüße 渠", "", 'a="b",c="d"} 7'])
def test_any_name_in_the_store_is_a_label(queue: str) -> None:
    """What other programs write there may be anything."""
    with Headrace("memory://") as app:
        put(app, job("a", queue))
        assert scraped(app)["headrace_queue_ready", queue] == 1


@pytest.mark.parametrize(
    ("queue", "shown"), [("\x1b[31mred", "\\x1b[31mred"), ("\u202eback", "\\u202eback"), ("half\ud800", "half\\ud800")]
)
def test_a_name_that_does_something_to_a_terminal_is_escaped(queue: str, shown: str) -> None:
    """B094"""
    with Headrace("memory://") as app:
        put(app, job("a", queue))
        assert scraped(app)["headrace_queue_ready", shown] == 1


def test_a_scrape_is_a_handful_of_questions_however_many_jobs_there_are() -> None:
    app, driver = Headrace("memory://"), WatchedDriver()
    app.driver = driver
    for name in ("smtp", "bank"):
        app.circuit(name)
        park(app, f"circuit {name}", 20)
    put(app, *(job(str(number), f"queue-{number % 7}") for number in range(200)))
    driver.seen.clear()
    found = scraped(app)
    assert found["headrace_queue_parked", "mail"] == 40
    asked = [type(operation).__name__ for operation in driver.seen]
    assert asked == ["Queues", "Workers", "LookParked", "LookRegisters", "LookRegisters"]
    assert not any(operation.writes for operation in driver.seen)


def test_more_circuits_than_one_page_holds() -> None:
    with Headrace("memory://") as app:
        for number in range(1_001):
            app.circuits.named(f"c{number}").force_open("x")
        found = scraped(app)
    assert sum(found["headrace_circuit_state", f"c{number}", "forced_open"] for number in range(1_001)) == 1_001


def test_two_apps_have_two_registries(tmp_path: Path) -> None:
    with Headrace("memory://", name="a") as one, Headrace(f"sqlite:///{tmp_path}/b.db", name="b") as other:
        put(one, job("x"))
        put(other, job("y"), job("z"))
        registries = [CollectorRegistry(), CollectorRegistry(auto_describe=True)]
        for registry, app in zip(registries, (one, other), strict=True):
            registry.register(StoreCollector(app))
        found = [parsed(generate_latest(registry).decode()) for registry in registries]
        assert [samples["headrace_queue_ready", "mail"] for samples in found] == [1, 2]
        with pytest.raises(ValueError, match="Duplicated timeseries"):
            registries[0].register(StoreCollector(other))


# -- a store that does not answer


def test_registering_asks_nothing_of_the_store() -> None:
    app, driver = Headrace("memory://"), WatchedDriver()
    app.driver = driver
    CollectorRegistry(auto_describe=True).register(StoreCollector(app))
    assert driver.seen == []


DOWN: Samples = {("headrace_up",): 0, ("headrace_build_info", __version__): 1}


@pytest.mark.parametrize(
    "scheme", ["redis://127.0.0.1:{}/0", "postgresql://127.0.0.1:{}/x", "mysql://a@127.0.0.1:{}/x"]
)
def test_nobody_listens(scheme: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with Headrace(scheme.format(port)) as app:
        app.circuit("smtp")
        assert scraped(app) == DOWN


def test_a_store_that_hangs_is_waited_for_once() -> None:
    """Until the driver's own deadline."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with Headrace(f"redis://127.0.0.1:{port}/0?socket_timeout=0.2") as app, served(app) as url:
            assert fetched(url) == DOWN


def test_a_database_in_a_folder_that_is_gone(tmp_path: Path) -> None:
    with Headrace(f"sqlite:///{tmp_path}/gone/jobs.db") as app:
        assert scraped(app) == DOWN
        (tmp_path / "gone").mkdir()
        assert scraped(app)["headrace_up",] == 1


def test_an_outage_is_logged_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "headrace.metrics")
    app, driver = Headrace("memory://"), WatchedDriver()
    app.driver = driver
    put(app, job("a"))

    def away(operation: Operation[object], when: str) -> None:
        if isinstance(operation, ops.Workers):  # in the middle of a scrape
            raise StoreUnavailable("no route to host")

    well = driver.trouble
    with served(app) as url:
        for trouble in (well, away, away, away, well, well, away):
            driver.trouble = trouble
            found = fetched(url)
            assert found["headrace_up",] == (trouble is well)
            assert (("headrace_queue_ready", "mail") in found) == (trouble is well)
    told = [(record.levelname, record.getMessage()) for record in caplog.records]
    down = ("WARNING", "the store does not answer, headrace_up is 0: no route to host")
    assert told == [down, ("INFO", "the store answers again, headrace_up is 1"), down]


async def test_a_scrape_does_not_block_an_event_loop() -> None:
    async with Headrace("memory://") as app:
        registry = CollectorRegistry(auto_describe=True)
        registry.register(StoreCollector(app))
        with pytest.raises(WrongColour, match=r"use `await asyncio.to_thread\(...\)`"):
            generate_latest(registry)
        found = parsed((await asyncio.to_thread(generate_latest, registry)).decode())
        assert found["headrace_up",] == 1
