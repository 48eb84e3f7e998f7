"""A shop of the test's own on a SQLite file, and the command `headrace` run in this process."""

import importlib
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace import Headrace
from headrace.cli import run
from headrace.core import operations as ops
from headrace.core import trail
from headrace.core.states import State

SHOP = """
from datetime import datetime
from decimal import Decimal
from enum import Enum
from headrace import Headrace, Retry

app = Headrace("sqlite:///jobs.db", name="shop")

class Colour(Enum):
    RED = "red"

@app.task(name="mail", queue="mail", timeout=30)
async def mail(order_id: int, note: str = "", to: str | None = None) -> None: ...

@app.task(name="report", unique="report-{day}")
def report(day: datetime, price: Decimal = Decimal(1), colour: Colour = Colour.RED, rows: list[int] = []) -> None: ...

@app.task(name="anything")
def anything(**values: object) -> None: ...
"""


@dataclass(frozen=True)
class Result:
    """How one call of the command ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Command = Callable[..., Result]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unique_name: str) -> Iterator[Headrace]:
    """The app, its module in the current folder and named by HEADRACE_APP."""
    (tmp_path / f"{unique_name}.py").write_text(textwrap.dedent(SHOP), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("HEADRACE_APP", f"{unique_name}:app")
    monkeypatch.delenv("HEADRACE_DEBUG", raising=False)
    app: Headrace = importlib.import_module(unique_name).app
    yield app
    app.close()
    del sys.modules[unique_name]


@pytest.fixture
def headrace(shop: Headrace, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run the command in this process, as `main` does."""

    def call(*arguments: str) -> Result:
        capsys.readouterr()
        code = run(arguments)
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return call


@pytest.fixture
def fail(shop: Headrace) -> Callable[..., list[str]]:
    """Make jobs that have failed, as a worker leaves them; returns their ids, oldest first."""

    def failed(
        count: int = 1, reason: str = "SMTPError", message: str = "no answer", task: str = "mail", **arguments: object
    ) -> list[str]:
        made = shop.tasks[task]
        jobs = [made.enqueue(**(arguments or {"order_id": number})) for number in range(count)]
        claimed = shop.driver.run(ops.Claim("w1", shop.clock.unix_us(), (made.queue,), count, 30_000_000))
        mishap = trail.Mishap("error", 1_700_000_000_000_000, 1, "w1", reason, message, f"Traceback:\n  {message}")
        after = trail.encode(trail.Trail(attempts=1, errors=1, history=(mishap,)))
        outcomes = tuple(
            ops.Outcome(job.id, job.queue, job.token, State.FAILED, trail=after, reason=reason) for job in claimed.jobs
        )
        assert shop.driver.run(ops.Settle("w1", outcomes)) == [True] * count
        return [job.id for job in jobs]

    return failed
