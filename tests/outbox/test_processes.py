"""Real transactions, real relay processes, real kills: what is committed gets out, what is not never does."""

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

import pytest

from headrace import Headrace
from headrace.core.operations import List
from headrace.core.outbox import AddEvents, Receive
from headrace.core.states import State
from headrace.outbox.events import new_event
from tests.outbox.lending import Connection, connect
from tests.outbox.stores import SQL_STORES
from tests.waiting import wait_until

APP = """
import os
from headrace import Headrace

app = Headrace(os.environ["OUTBOX_URL"], name=os.environ["OUTBOX_NAME"])


@app.on("Counted", name="handle")
async def handle(payload: dict[str, int]) -> None: ...
"""


class Place:
    """A database, an app on it, and the address as the database's own client takes it."""

    def __init__(self, kind: str, url: str, where: str, name: str, folder: Path) -> None:
        self.kind, self.url, self.where, self.name, self.folder = kind, url, where, name, folder
        self.app = Headrace(url, name=name)
        self.store = self.app.driver.store if hasattr(self.app.driver, "store") else self.app.driver._store
        (folder / "shop_outbox.py").write_text(textwrap.dedent(APP))

    def connect(self) -> Connection:
        return connect(self.kind, self.where, self.store)

    def relay(self, *options: str) -> "subprocess.Popen[bytes]":
        """`headrace outbox relay`, whose claims last a second."""
        command = [sys.executable, "-m", "headrace.cli", "outbox", "relay", "--app", "shop_outbox:app"]
        environment = {**os.environ, "OUTBOX_URL": self.url, "OUTBOX_NAME": self.name}
        log = (self.folder / "relay.log").open("ab")
        with log:
            return subprocess.Popen(
                [*command, "--lease", "1s", "--batch", "20", *options], cwd=self.folder, env=environment, stderr=log
            )

    @property
    def log(self) -> str:
        """What the relays have written."""
        return (self.folder / "relay.log").read_text(errors="replace")[-3000:]

    def jobs(self) -> list[tuple[str, dict[str, int]]]:
        """(id, payload) of all jobs, in the order in which they were enqueued."""
        found, cursor = [], None
        while True:
            page = self.app.driver.run(List(State.READY, limit=500, cursor=cursor, bodies=True))
            for view in page.jobs:
                assert view.body is not None
                found.append((view.id, json.loads(view.body)["args"]["payload"]))
            if (cursor := page.next) is None:
                return found


@pytest.fixture(params=SQL_STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path, unique_name: str) -> Iterator[Place]:
    if request.param == "sqlite":
        where = str(tmp_path / "shop.db")
        url = f"sqlite:///{where}"
    else:
        url = where = request.getfixturevalue(f"{request.param}_url")
    place = Place(request.param, url, where, unique_name, tmp_path)
    place.app.outbox.view()  # brings the tables
    yield place
    place.app.close()


def event(place: Place, n: int, lane: int) -> AddEvents:
    new = new_event("Counted", place.app.new_id(), payload={"n": n, "lane": lane}, aggregate=("Lane", lane))
    return AddEvents((new,))


WRITERS, EACH, LANES = 10, 100, 5


def write(place: Place, seed: int, committed: Callable[[int, int], None]) -> None:
    """Transactions with random pauses; those of one lane wait for each other, and one in five is rolled back."""
    rng, pause = random.Random(seed), threading.Event()
    connection = place.connect()
    try:
        for _ in range(EACH):
            lane = rng.randrange(LANES)
            connection.begin()
            connection.ask(f"update {place.name}_lanes set n = n + 1 where lane = {lane}")
            ((n,),) = connection.ask(f"select n from {place.name}_lanes where lane = {lane}")
            connection.run(place.store, event(place, int(n), lane))
            pause.wait(rng.random() * 0.004)
            if rng.random() < 0.2:
                connection.ask("rollback")
            else:
                connection.ask("commit")
                committed(lane, int(n))
            pause.wait(rng.random() * 0.02)
    finally:
        connection.close()


class Relays:
    """Two relays; now and then one is killed, and another takes its place."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.kills = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        running = [self.place.relay(), self.place.relay()]
        try:
            while not self._done.wait(2.0):
                running[0].send_signal(signal.SIGKILL)
                running.pop(0).wait()
                self.kills += 1
                running.append(self.place.relay())
        finally:
            for relay in running:
                relay.kill()
                relay.wait()


@pytest.mark.timeout(240)
def test_every_committed_event_becomes_one_job_in_order_while_relays_are_killed(place: Place) -> None:
    """B116, B117: ten writers, rollbacks among them, and relays that die in the middle of everything."""
    setup = place.connect()
    setup.ask(f"create table {place.name}_lanes (lane integer primary key, n integer not null)")
    for lane in range(LANES):
        setup.ask(f"insert into {place.name}_lanes (lane, n) values ({lane}, 0)")
    expected: list[tuple[int, int]] = []
    lock = threading.Lock()

    def committed(lane: int, n: int) -> None:
        with lock:
            expected.append((lane, n))

    try:
        with Relays(place) as relays:
            with ThreadPoolExecutor(WRITERS) as pool:
                list(pool.map(lambda seed: write(place, seed, committed), range(WRITERS)))
            wait_until(lambda: place.app.outbox.view().pending == 0, 60, "all events to be published")
            wait_until(lambda: relays.kills >= 2, 30, "two kills")
        jobs = place.jobs()
    finally:
        setup.ask(f"drop table {place.name}_lanes")
        setup.close()
    assert len({id for id, _ in jobs}) == len(jobs) == len(expected) > 500
    of_lane: dict[int, list[int]] = defaultdict(list)
    for _, payload in jobs:
        of_lane[payload["lane"]].append(payload["n"])
    for lane in range(LANES):
        assert of_lane[lane] == sorted(n for at, n in expected if at == lane), lane
    view = place.app.outbox.view()
    assert (view.pending, view.parked, view.published) == (0, 0, len(expected))


def test_what_is_rolled_back_leaves_nothing(place: Place) -> None:
    """B116: no event, and no note in the inbox."""
    connection = place.connect()
    try:
        connection.begin()
        connection.run(place.store, event(place, 1, 1))
        assert connection.run(place.store, Receive("mail", "m", "one"))
        connection.ask("savepoint inner_one")
        connection.run(place.store, event(place, 2, 1))
        connection.ask("rollback to inner_one" if place.kind == "sqlite" else "rollback to savepoint inner_one")
        connection.ask("rollback")
        assert place.app.outbox.view().pending == 0
        connection.begin()
        assert connection.run(place.store, Receive("mail", "m", "two"))
        connection.run(place.store, event(place, 3, 1))
        connection.ask("commit")
        assert place.app.outbox.view().pending == 1
        connection.begin()
        assert not connection.run(place.store, Receive("mail", "m", "three"))
        connection.ask("commit")
    finally:
        connection.close()


def test_a_relay_that_is_frozen_past_its_lease_costs_neither_order_nor_events(place: Place) -> None:
    """B117. It wakes up with a batch in hand that another one has long carried out."""
    if place.kind == "sqlite":
        return  # frozen in the middle of a write it would keep the file locked for all
    for n in range(600):
        place.app.driver.run(event(place, n, n % LANES))
    relays = [place.relay("--batch", "1")]
    try:
        wait_until(lambda: 0 < place.app.outbox.view().pending < 600, 60, "the first to be at work")
        os.kill(relays[0].pid, signal.SIGSTOP)
        relays.append(place.relay())
        wait_until(lambda: place.app.outbox.view().pending == 0, 60, f"the second to do the rest\n{place.log}")
        os.kill(relays[0].pid, signal.SIGCONT)
        place.app.driver.run(event(place, 600, 0))
        wait_until(lambda: place.app.outbox.view().pending == 0, 60, "one event more")
        for relay in relays:
            relay.terminate()
            assert relay.wait(30) == 0, place.log
    finally:
        for relay in relays:
            relay.kill()
            relay.wait()
    jobs = place.jobs()
    assert len({id for id, _ in jobs}) == len(jobs) == 601
    for lane in range(LANES):
        numbers = [payload["n"] for _, payload in jobs if payload["lane"] == lane]
        assert numbers == sorted(numbers)


def test_a_relay_that_is_told_to_stop_finishes_its_batch(place: Place) -> None:
    for n in range(200):
        place.app.driver.run(event(place, n, n % 3))
    relay = place.relay()
    try:
        wait_until(lambda: place.app.outbox.view().published >= 20 or relay.poll() is not None, 30)
        relay.send_signal(signal.SIGTERM)
        assert relay.wait(20) == 0, place.log
    finally:
        relay.kill()
        relay.wait()
    view = place.app.outbox.view()
    assert len(place.jobs()) == view.published
    again = place.relay("--once")
    assert again.wait(30) == 0
    assert place.app.outbox.view().published == 200
    assert sorted(payload["n"] for _, payload in place.jobs()) == list(range(200))


def test_a_backlog_is_drained_in_batches_and_purged(place: Place) -> None:
    """B160: the relay was away for long."""
    events = [
        new_event("Counted", place.app.new_id(), payload={"n": n, "lane": n % 50}, aggregate=("Lane", n % 50))
        for n in range(5000)
    ]
    for start in range(0, 5000, 1000):
        place.app.driver.run(AddEvents(tuple(events[start : start + 1000])))
    relay = place.relay("--once", "--batch", "500")
    assert relay.wait(60) == 0
    assert place.app.outbox.view().published == 5000
    assert place.app.outbox.prune(0) == 5000
    assert place.app.outbox.view().published == 0
