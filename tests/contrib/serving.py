"""A shop as its users run it: a web server, workers and relays, each a process of its own, on a real database."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
from sqlalchemy import Engine, MetaData, Table, create_engine, select

from tests.contrib.shop import Settings
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 45.0  # seconds: the machine may be loaded; nothing here takes so long by itself
PLACES = ("sqlite", "postgres", "mysql", "redis")


class Process:
    """One process with a log."""

    def __init__(self, arguments: list[str], environment: dict[str, str], log: Path, folder: Path = ROOT) -> None:
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=folder,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL: no goodbye."""
        self._process.kill()
        self._process.wait()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to end, and wait until it does; the exit code."""
        if self.running:
            self._process.send_signal(number)
        return self._process.wait(PATIENCE)

    def wait_for_log(self, text: str) -> None:
        self.watch(lambda: text in self.log, f"{text!r} in the log")

    def watch(self, predicate: Callable[[], Any], what: str) -> Any:
        """Wait for something; the log explains why it did not come."""
        try:
            return wait_until(predicate, PATIENCE, what)
        except AssertionError as error:
            error.add_note(self.log[-4000:])
            raise


class Web(Process):
    """A web server on a port of its own."""

    def __init__(self, arguments: list[str], environment: dict[str, str], log: Path, folder: Path = ROOT) -> None:
        port = free_port()
        super().__init__([word.format(port=port) for word in arguments], environment, log, folder)
        # uvicorn closes a connection after an error 500, perhaps while the next request is on its way
        alone = httpx2.Limits(max_keepalive_connections=0)
        self._client = httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE, limits=alone)
        self.watch(self._answers, "the web server")

    def _answers(self) -> bool:
        assert self.running, self.log[-4000:]
        return self.up() is not None

    def up(self) -> int | None:
        """The process id of whoever answers; None while nobody does."""
        try:
            answer = self._client.get("/up")
        except httpx2.TransportError:
            return None
        return int(answer.text) if answer.status_code == 200 else None

    def get(self, path: str) -> Any:
        return self._client.get(path)

    def order(self, number: int, then: str = "", path: str = "/orders") -> int:
        """Place an order; the status code of the answer."""
        return self._client.post(path, params={"number": number, "then": then}).status_code

    def order_and_kill(self, number: int, held: Path) -> None:
        """Place an order, and kill the server between the enqueue and the commit."""
        with subprocess.Popen(
            [sys.executable, "-c", _POST, str(self._client.base_url.join(f"/orders?number={number}&then=hold"))],
            stderr=subprocess.DEVNULL,
        ) as browser:
            self.watch(held.exists, "the request to be held")
            self.kill()
        assert browser.returncode != 0

    def close(self) -> None:
        self._client.close()
        if self.running:
            self.kill()


_POST = "import sys, urllib.request; urllib.request.urlopen(urllib.request.Request(sys.argv[1], method='POST'))"


class Shop:
    """A shop with its data and its jobs in one place, or in two."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings = settings
        self.folder = folder
        self.jobs = settings.headrace()
        self.jobs.jobs.queues()  # makes the tables
        if settings.outbox is not None:
            self.jobs.outbox.view()
        self.engine: Engine = create_engine(settings.engine_url())
        self.tables = settings.tables(MetaData())
        self.tables[0].metadata.create_all(self.engine)
        self._started: list[Process] = []

    @property
    def held(self) -> Path:
        """There once a request is held before its commit."""
        return Path(self.settings.held)

    def web(self, *arguments: str, **more: str) -> Web:
        """Start a web server; `{port}` is its port."""
        web = Web(list(arguments), {**self.settings.environment(), **more}, self._next_log("web"))
        self._started.append(web)
        return web

    def process(self, *arguments: str, ready: str) -> Process:
        """Start a worker, a relay or another program; `ready` is in its log when it has started."""
        process = Process(list(arguments), self.settings.environment(), self._next_log("process"))
        self._started.append(process)
        process.wait_for_log(ready)
        return process

    def _next_log(self, kind: str) -> Path:
        return self.folder / f"{kind}-{len(self._started)}.log"

    def relay(self, spec: str) -> None:
        """A relay, where the jobs do not live beside the data."""
        if self.settings.outbox is not None:
            self.process("-m", "headrace.cli", "outbox", "relay", "--app", spec, ready="started")

    def orders(self) -> list[int]:
        return self._numbers(self.tables[0])

    def mails(self) -> list[int]:
        return self._numbers(self.tables[1])

    def _numbers(self, table: Table) -> list[int]:
        with self.engine.connect() as connection:
            return sorted(connection.execute(select(table.c.number)).scalars())

    def wait_for_mails(self, numbers: list[int]) -> None:
        """Wait until exactly these customers have their mail."""
        try:
            wait_until(lambda: self.mails() == numbers, PATIENCE, f"mails for {numbers}")
        except AssertionError as error:
            for process in self._started:
                error.add_note(process.log[-3000:])
            raise

    def waiting(self) -> int:
        """Jobs and rows of an outbox that are not done with."""
        held = sum(queue.ready + queue.scheduled + queue.running + queue.failed for queue in self.jobs.jobs.queues())
        if self.settings.outbox is not None:
            view = self.jobs.outbox.view()
            held += view.pending + view.parked
        return held

    def close(self) -> None:
        for process in self._started:
            if isinstance(process, Web):
                process.close()
            elif process.running:
                process.kill()
        self.tables[0].metadata.drop_all(self.engine)
        self.engine.dispose()
        self.jobs.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def settings_of(kind: str, request: pytest.FixtureRequest, name: str, folder: Path) -> Settings:
    """A place for the data and the jobs of one test."""
    file = f"sqlite:///{folder / 'shop.db'}"
    data = file if kind in {"sqlite", "redis"} else str(request.getfixturevalue(f"{kind}_url"))
    jobs = str(request.getfixturevalue("redis_url")) if kind == "redis" else data
    return Settings(data, jobs, data if kind == "redis" else None, name, str(folder / "held"))


def shops(request: pytest.FixtureRequest, name: str, folder: Path) -> Iterator[Shop]:
    """The shop of a test, for a fixture with the places as its parameters."""
    with ExitStack() as cleanup:
        shop = Shop(settings_of(request.param, request, name, folder), folder)
        cleanup.callback(shop.close)
        yield shop
