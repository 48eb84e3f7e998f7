"""What operators see and do, from code and from the command line; and what a worker tells its middleware."""

import json
import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from headrace import CircuitOpen, Headrace, Middleware
from headrace.cli import run
from headrace.core.circuit import CircuitChange, OfferCalls
from headrace.core.moments import aware
from headrace.core.operations import Operation
from headrace.core.registers import Amend
from headrace.drivers.system import this_process
from headrace.errors import StoreUnavailable
from headrace.signals import CircuitChanged, Signal
from headrace.task import Task
from tests.circuits.dependency import Dependency
from tests.public.drivers import WatchedDriver
from tests.waiting import await_until
from tests.worker.working import state_of, working


class Ears(Middleware):
    def __init__(self) -> None:
        self.heard: list[Signal] = []

    def noticed(self, signal: Signal) -> None:
        self.heard.append(signal)


async def test_by_hand_and_back(app: Headrace, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    smtp = app.circuit("smtp", window=1)
    await smtp.aforce_open("maintenance", by="ann")
    with pytest.raises(CircuitOpen, match="by hand"):
        async with smtp.call():
            pytest.fail("it is open")
    await smtp.aforce_close("I know better", by="bob")
    for _ in range(3):
        with pytest.raises(OSError, match="no"):
            async with smtp.call():
                raise OSError("no")
    assert (await smtp.alook()).state == "forced_closed"
    await smtp.areset("done")
    look = await smtp.alook()
    assert (look.state, look.calls) == ("closed", 0)
    steps = [(step.after, step.why, step.by) for step in look.history]
    assert steps[:2] == [("forced_open", "maintenance", "ann"), ("forced_closed", "I know better", "bob")]
    assert (steps[2][0], steps[2][1]) == ("closed", "done")
    assert "circuit smtp: forced_open, was closed: maintenance (by ann)" in caplog.text


def test_the_same_from_plain_code(tmp_path: Path) -> None:
    with Headrace(f"sqlite:///{tmp_path}/jobs.db") as app:
        smtp, bank = app.circuit("smtp"), app.circuit("bank")
        smtp.force_open("x")
        assert [(info.name, info.state) for info in app.circuits.look()] == [
            ("bank", "closed"),
            ("smtp", "forced_open"),
        ]
        smtp.force_close("y")
        smtp.reset("z")
        assert (smtp.look().state, bank.look().since) == ("closed", None)


async def test_jobs_wait_while_it_is_forced_open_and_come_back_when_it_is_reset(
    app: Headrace, dependency: Dependency
) -> None:
    smtp = app.circuit("smtp")

    @app.task(circuit=smtp)
    async def mail(number: int) -> None:
        await dependency.call()

    await smtp.aforce_open("maintenance")
    async with working(app):
        for number in range(20):
            await mail.aenqueue(number)

        async def are_parked() -> bool:
            return (await smtp.alook()).parked == 20

        await await_until(are_parked)
        assert not dependency.calls
        await smtp.areset("done")
        await await_until(lambda: len(dependency.calls) == 20, 20, "all calls")


async def down_and_up(app: Headrace, mail: Task[..., Any], dependency: Dependency, ears: Ears) -> None:
    """A worker whose calls open the circuit, and close it again."""
    dependency.works = False
    async with working(app, id="w"):
        for number in range(2):
            await mail.aenqueue(number)
        await await_until(lambda: len(ears.heard) > 0)
        dependency.works = True
        await mail.aenqueue(2)
        await await_until(lambda: len(ears.heard) > 2, 20, "the circuit to close")


async def test_a_worker_tells_its_middleware_of_each_transition(app: Headrace, dependency: Dependency) -> None:
    app.circuit("smtp", window=2, open_for=0.1, probes=1)
    ears = Ears()
    app.middleware.append(ears)

    @app.task(circuit="smtp", retry=1)
    async def mail(number: int) -> None:
        await dependency.call()

    await down_and_up(app, mail, dependency, ears)
    changes = [(one.before, one.after, one.by) for one in ears.heard if isinstance(one, CircuitChanged)]
    assert changes == [("closed", "open", "w"), ("open", "half_open", "w"), ("half_open", "closed", "w")]
    assert {one.circuit for one in ears.heard if isinstance(one, CircuitChanged)} == {"smtp"}


async def test_a_transition_is_told_once_where_answers_are_lost(dependency: Dependency) -> None:
    app = Headrace("memory://")
    app.driver = driver = WatchedDriver()
    app.circuit("smtp", window=2, open_for=0.1, probes=1)
    ears = Ears()
    app.middleware.append(ears)
    lost: set[str] = set()

    def lose(operation: Operation[Any], when: str) -> None:
        """The first answers to all questions and reports, and to one offer: another job comes back with the next."""
        changes = operation.changes if isinstance(operation, Amend) and when == "after" else ()
        requests = {
            "offer" if isinstance(change, OfferCalls) else change.request
            for change in changes
            if isinstance(change, CircuitChange)
        }
        if not requests <= lost:
            lost.update(requests)
            raise StoreUnavailable("the connection was cut")

    @app.task(circuit="smtp", retry=1)
    async def mail(number: int) -> None:
        await dependency.call()

    driver.trouble = lose
    await down_and_up(app, mail, dependency, ears)
    changes = [(one.before, one.after) for one in ears.heard if isinstance(one, CircuitChanged)]
    assert changes == [("closed", "open"), ("open", "half_open"), ("half_open", "closed")]
    assert lost


async def test_transitions_outside_of_workers_are_told_too(app: Headrace) -> None:
    smtp = app.circuit("smtp", window=1)
    ears = Ears()
    app.middleware.append(ears)
    with pytest.raises(OSError, match="no"):
        async with smtp.call():
            raise OSError("no")
    await smtp.areset("it works again", by="ann")
    heard = [(one.circuit, one.after, one.by) for one in ears.heard if isinstance(one, CircuitChanged)]
    assert heard == [("smtp", "open", this_process()), ("smtp", "closed", "ann")]


SHOP = """
from headrace import Headrace
app = Headrace("sqlite:///jobs.db")
smtp = app.circuit("smtp", window=10, open_for=30)
@app.task(circuit="smtp")
def mail(): ...
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unique_name: str) -> Iterator[Headrace]:
    (tmp_path / f"{unique_name}.py").write_text(SHOP, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("HEADRACE_APP", f"{unique_name}:app")
    import importlib
    import sys

    app: Headrace = importlib.import_module(unique_name).app
    yield app
    app.close()
    del sys.modules[unique_name]


def test_the_command_line(shop: Headrace, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*arguments: str) -> str:
        capsys.readouterr()
        assert run(["circuit", *arguments]) == 0
        return capsys.readouterr().out

    assert said("list").splitlines()[1].split()[:2] == ["smtp", "closed"]
    opened = json.loads(said("open", "smtp", "--why", "mail\nserver moves", "--by", "ann", "--json"))
    assert (opened["state"], opened["history"][-1]["by"]) == ("forced_open", "ann")
    shown = said("show", "smtp")
    assert r"closed -> forced_open: mail\nserver moves (by ann)" in shown
    assert "when 50% of the last 10 calls fail or 100% take over 60 s, of 10 at least; for 30 s" in shown
    closed = said("close", "smtp")
    assert closed == "circuit smtp: forced_closed, all calls are let in until it is reset; 0 jobs parked\n"
    assert json.loads(said("close", "smtp", "--json"))["state"] == "forced_closed"
    assert json.loads(said("reset", "smtp", "--json"))["state"] == "closed"
    assert json.loads(said("list", "--json"))["circuit"] == "smtp"

    shop.circuits.named("of-old-code").force_open("x")
    assert "of-old-code" in said("list")
    assert json.loads(said("reset", "of-old-code", "--json"))["state"] == "closed"
    assert run(["circuit", "show", "smpt"]) == 4
    assert "there is no circuit 'smpt': did you mean 'smtp'?" in capsys.readouterr().err


def test_the_start_of_an_outage_is_shown_however_often_its_probes_fail(
    shop: Headrace, capsys: pytest.CaptureFixture[str]
) -> None:
    bank = shop.circuit("bank", window=2, open_for=0.001, probes=1)
    while bank.look().entered.get("open", 0) < 6:
        with suppress(OSError, CircuitOpen), bank.call():
            raise OSError
    first = next(step for step in bank.look().history if step.before == "closed")
    look = bank.look()
    assert (look.down_since, look.down_why) == (aware(first.at_us), "100% of 2 calls failed")
    assert run(["circuit", "list"]) == 0
    assert "100% of 2 calls failed" in capsys.readouterr().out
    assert run(["circuit", "show", "bank"]) == 0
    said = capsys.readouterr().out
    assert "... 4 more probes failed" in said
    assert said.count("open -> half_open") + said.count("half_open -> open") <= 2
    bank.reset("it is back")
    assert (bank.look().down_since, bank.look().down_why) == (None, "")


def test_check_looks_for_the_circuits_too(shop: Headrace, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check"]) == 0
    shop.task(name="pay", circuit="bank")(lambda: None)
    assert run(["check"]) == 2
    assert "the task pay names the circuit 'bank', which the app has not" in capsys.readouterr().err


async def test_why_names_the_circuit(app: Headrace) -> None:
    smtp = app.circuit("smtp", window=1, open_for=60)

    @app.task(circuit=smtp)
    async def mail() -> None: ...

    with suppress(OSError):
        async with smtp.call():
            raise OSError
    async with working(app):
        job = await mail.aenqueue()

        async def is_parked() -> bool:
            return await state_of(app, job.id) == "parked"

        await await_until(is_parked)
    said = " ".join(await app.ajobs.why(job.id))
    assert "It is parked, unharmed, until the circuit 'smtp' lets it in: that is open. Probes are let in after " in said
    assert "100% of 1 calls failed" in said
