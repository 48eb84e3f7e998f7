"""What jobs raise, and tasks that are not there: through a real worker on every store. Cases B088 to B094 and B097."""

import asyncio
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace import Fixed, Headrace, Retry, State
from headrace.core import trail
from headrace.core.codec import Envelope, encode
from tests.cases.running import ended, failed, put, remember, working
from tests.waiting import await_until

# -- B088: exceptions that cannot be copied, printed or followed


class NeedsTwo(Exception):
    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a} and {b}")


class HoldsThings(Exception):
    def __init__(self) -> None:
        super().__init__("holds things")
        self.lock, self.generator = threading.Lock(), (n for n in range(3))
        with socket.socket() as self.socket:
            pass


class NoText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class NoneOfOurs(BaseException):
    pass


def needs_two() -> None:
    raise NeedsTwo(1, 2)


def holds_things() -> None:
    raise HoldsThings


def no_text() -> None:
    raise NoText


def group() -> None:
    raise ExceptionGroup("many", [ValueError("one"), ExceptionGroup("inner", [NoText(), KeyError("two")])])


def circle() -> None:
    first, second = ValueError("first"), KeyError("second")
    first.__cause__, second.__cause__ = second, first
    raise first


def five_megabytes() -> None:
    raise ValueError("x" * 5_000_000)


def beyond_exception() -> None:
    raise NoneOfOurs("of no known family")


def leaves() -> None:
    raise SystemExit(3)


RAISING: dict[Callable[[], None], tuple[str, str]] = {
    needs_two: ("NeedsTwo", "1 and 2"),
    holds_things: ("HoldsThings", "holds things"),
    no_text: ("NoText", "raised RuntimeError"),
    group: ("ExceptionGroup", "many (2 sub-exceptions)"),
    circle: ("ValueError", "first"),
    five_megabytes: ("ValueError", "characters cut]"),
    beyond_exception: ("NoneOfOurs", "of no known family"),
    leaves: ("SystemExit", "3"),
}


async def test_every_exception_is_recorded_and_the_worker_lives(app: Headrace) -> None:
    """B088: as text, whatever it is; in coroutines and in threads; the next job runs."""

    @app.task(name="plain", retry=1)
    def plain(number: int) -> None:
        list(RAISING)[number]()

    @app.task(name="async", retry=1)
    async def in_loop(number: int) -> None:
        list(RAISING)[number]()

    @app.task(name="good", keep=60)
    async def good() -> None: ...

    async with working(app):
        for task in (plain, in_loop):
            for number, (type_, message) in enumerate(RAISING.values()):
                info = await failed(app, (await task.aenqueue(number)).id)
                (mishap,) = info.history
                assert (info.reason, mishap.type, info.counts["errors"]) == (type_, type_, 1)
                assert message in mishap.message
                assert len(mishap.message) + len(mishap.traceback) < 12_000
                assert f"in {list(RAISING)[number].__name__}" in mishap.traceback
        last = await ended(app, (await good.aenqueue()).id)
    assert last is not None
    assert last.state is State.SUCCEEDED
    assert len((await app.ajobs.list(limit=1000)).jobs) == 2 * len(RAISING)


async def test_a_finished_job_is_not_run_again_by_a_retry(app: Headrace) -> None:
    """B090: whether it is kept, deleted, forgotten or pruned, the answer says why, and the worker goes on."""
    runs: list[str] = []

    @app.task(name="kept", keep=60)
    async def kept() -> None:
        runs.append("kept")

    @app.task(name="gone")
    async def gone() -> None:
        runs.append("gone")

    @app.task(name="broken", retry=1)
    async def broken() -> None:
        runs.append("broken")
        raise ValueError("no")

    async with working(app):
        jobs = {task.name: (await task.aenqueue()).id for task in (kept, gone, broken)}
        await failed(app, jobs["broken"])
        await await_until(lambda: len(runs) == 3)
        await ended(app, jobs["kept"])
        assert await ended(app, jobs["gone"]) is None
        pruned = (await broken.aenqueue()).id
        await failed(app, pruned)
        assert await app.ajobs.forget(jobs["broken"]) == 1
        assert await app.ajobs.prune(most=0) == 1
        answer = await app.ajobs.retry([*jobs.values(), pruned])
        assert answer.retried == 0
        assert answer.skipped == {
            jobs["kept"]: "is succeeded",
            **dict.fromkeys((jobs["gone"], jobs["broken"], pruned), "absent"),
        }
        assert await ended(app, (await gone.aenqueue()).id) is None
    assert sorted(runs) == ["broken", "broken", "gone", "gone", "kept"]


# -- B092: code that is not there


async def test_an_unknown_task_waits_for_a_worker_that_knows_it(app: Headrace) -> None:
    """B092: a name is looked up, never imported; put back without an attempt, failed when nobody turned up."""
    ran: list[int] = []

    @app.task(name="known")
    async def known() -> None:
        ran.append(0)

    await put(app, "odd", encode(Envelope(id="odd", task="os.system", args={})))  # type: ignore[arg-type]
    async with working(app, concurrency=1):
        await await_until(lambda: _put_back(app, "odd"), what="the unknown task to be put back")
        assert await ended(app, (await known.aenqueue()).id) is None  # the slot is free
    info = await app.ajobs.get("odd")
    assert info is not None
    assert (info.state, info.counts["attempts"], info.counts["errors"]) == (State.SCHEDULED, 0, 0)
    await app.ajobs.cancel("odd")
    await put(app, "late", encode(Envelope(id="late", task="pkg.missing", args={})))  # type: ignore[arg-type]
    await remember(app, trail.encode(trail.Trail(unknown_since_us=1)))
    async with working(app):
        late = await failed(app, "late")
    assert late.reason == "unknown task"
    assert "no worker knew the task 'pkg.missing'" in late.history[-1].message
    assert ran == [0]


async def _put_back(app: Headrace, id: str) -> bool:
    info = await app.ajobs.get(id)
    return info is not None and info.state is State.SCHEDULED and info.reason == "unknown task"


def write(module: Path, source: str) -> None:
    module.write_text(source)


@pytest.fixture
def module(tmp_path: Path, unique_name: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module of the test's own that can be imported, changed and imported again."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return tmp_path / f"{unique_name}.py"


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("import nowhere_to_be_found", "ModuleNotFoundError"),
        ("def broken(:", "SyntaxError"),
        ("1 / 0", "ZeroDivisionError"),
    ],
)
async def test_an_import_that_fails_in_a_handler_is_an_ordinary_error(
    source: str, error: str, app: Headrace, module: Path
) -> None:
    """B092: retried by the policy, with its text; a deploy that mends the module lets it succeed."""
    write(module, source)
    runs: list[int] = []

    @app.task(name="imports", keep=60, retry=Retry(max_attempts=3, backoff=Fixed(0.01)))
    async def imports() -> None:
        runs.append(len(runs))
        if len(runs) == 3:
            write(module, "mended = True  # and longer than before")
        __import__(module.stem)

    async with working(app, concurrency=1):
        info = await ended(app, (await imports.aenqueue()).id)
    assert info is not None
    assert (info.state, info.counts["errors"], len(runs)) == (State.SUCCEEDED, 2, 3)
    assert {mishap.type for mishap in info.history} == {error}


@pytest.mark.parametrize("source", ["import nowhere_to_be_found", "def broken(:", "raise SystemExit(0)"])
def test_a_worker_whose_module_fails_does_not_start(source: str, tmp_path: Path) -> None:
    """B092: a bad deploy is one clear error and an exit code, before any job has been touched."""
    (tmp_path / "shop.py").write_text(textwrap.dedent(source))
    command = [sys.executable, "-m", "headrace.cli", "--app", "shop:app", "work"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 2
    assert "importing shop fails" in result.stderr
    assert "Traceback" not in result.stderr


# -- B094: text of every kind

TEXTS = {
    "emoji": "\U0001f600 sent",
    "right to left": "\u05e9\u05dc\u05d5\u05dd \u202eabc",
    "Chinese": "订单已发送",
    "a lone surrogate": "left \ud800 alone",
    "bytes": repr(b"\xff\xfe\x00"),
    "ANSI": "\x1b[31mred\x1b[0m",
    "NUL": "a\x00b",
    "lines": "one\r\ntwo\u2028three",
}


@pytest.mark.parametrize("name", TEXTS)
async def test_texts_of_every_kind_are_kept(name: str, app: Headrace) -> None:
    """B094: in an error, a type's name, an argument, a header; stored, listed, found by their reason."""
    text = TEXTS[name]
    kept = text.replace("\ud800", "?").replace("\x00", "\ufffd")
    storable = "\ud800" not in text
    arguments: list[Any] = []

    @app.task(name="text", retry=1)
    async def raising(note: str) -> None:
        arguments.append(note)
        raise type(text, (Exception,), {})(text) if storable and "\x00" not in text else ValueError(text)

    printable = text if text.isprintable() else "printable"
    task = raising.using(headers={"note": printable}, tags=[printable], tenant=printable)
    async with working(app):
        info = await failed(app, (await task.aenqueue(text if storable else "")).id)
    assert info.history[-1].message == kept
    assert info.args == {"note": text if storable else ""}
    assert arguments == [info.args["note"]]
    assert info.envelope is not None
    assert (info.envelope.headers, info.envelope.tags) == ({"note": printable}, (printable,))
    found = await app.ajobs.list(reason=info.reason, task="text")
    assert [each.id for each in found.jobs] == [info.id]
    assert (await app.ajobs.why(info.id))[0].startswith("It has failed: ")


# -- B097: what a handler returns


def itself() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


RETURNED: dict[str, Callable[[], Any]] = {
    "a lock": threading.Lock,
    "itself": itself,
    "a generator": lambda: (n for n in range(3)),
    "NaN": lambda: float("nan"),
    "a class": lambda: NoText,
    "an exception": NoText,
    "a future": lambda: asyncio.get_running_loop().create_future(),
}


@pytest.mark.parametrize("name", RETURNED)
async def test_a_result_that_cannot_be_stored_does_not_undo_the_work(name: str, app: Headrace) -> None:
    """B097, B100: results are not stored, so whatever is returned, the job has succeeded and runs once."""
    runs: list[str] = []

    @app.task(name="returns", keep=60, retry=3)
    async def returns() -> Any:
        runs.append(name)
        return RETURNED[name]()

    async with working(app):
        info = await ended(app, (await returns.aenqueue()).id)
    assert info is not None
    assert (info.state, info.history, runs) == (State.SUCCEEDED, (), [name])
