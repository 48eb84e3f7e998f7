"""What middleware puts right around a handler: in the thread of a plain function, in the task of a coroutine."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any

import pytest

from headrace import Headrace, JobContext, Middleware
from tests.worker.working import KEEP, ended, working

_scope: ContextVar[str] = ContextVar("scope")


class Scope(Middleware):
    """Notes what it sees, where it sees it."""

    def __init__(self, name: str, seen: list[tuple[str, int]]) -> None:
        self._name = name
        self._seen = seen

    def inside(self, job: JobContext) -> AbstractContextManager[object]:
        return self._entered(job)

    @contextmanager
    def _entered(self, job: JobContext) -> Iterator[None]:
        token = _scope.set(f"{self._name} of {job.task}")
        self._seen.append((f"enter {self._name}", threading.get_ident()))
        try:
            yield
        except LookupError as error:
            self._seen.append((f"error {error.args[0]} in {self._name}", threading.get_ident()))
            raise
        finally:
            _scope.reset(token)
            self._seen.append((f"leave {self._name}", threading.get_ident()))


@pytest.fixture
def app() -> Headrace:
    return Headrace("memory://")


async def test_a_context_is_entered_in_the_thread_of_a_plain_function(app: Headrace) -> None:
    seen: list[tuple[str, int]] = []
    app.middleware += [Scope("outer", seen), Scope("inner", seen)]

    @app.task(name="note", keep=KEEP)
    def note() -> None:
        seen.append((_scope.get(), threading.get_ident()))

    job = await note.aenqueue()
    async with working(app):
        await ended(app, job.id, "succeeded")
    said = [what for what, _ in seen]
    assert said == ["enter outer", "enter inner", "inner of note", "leave inner", "leave outer"]
    assert len({thread for _, thread in seen}) == 1
    assert seen[0][1] != threading.get_ident()


async def test_a_context_is_entered_in_the_task_of_a_coroutine(app: Headrace) -> None:
    seen: list[tuple[str, int]] = []
    app.middleware += [Scope("outer", seen)]

    @app.task(name="note", keep=KEEP)
    async def note() -> None:
        seen.append((_scope.get(), threading.get_ident()))

    job = await note.aenqueue()
    async with working(app):
        await ended(app, job.id, "succeeded")
    assert seen == [(what, threading.get_ident()) for what in ("enter outer", "outer of note", "leave outer")]


async def test_the_context_sees_the_error_of_the_handler(app: Headrace) -> None:
    seen: list[tuple[str, int]] = []
    app.middleware += [Scope("outer", seen)]

    @app.task(retry=1)
    def fail() -> None:
        raise LookupError("nothing there")

    job = await fail.aenqueue()
    async with working(app):
        info = await ended(app, job.id, "failed")
    assert [what for what, _ in seen] == ["enter outer", "error nothing there in outer", "leave outer"]
    assert info.history[-1].message == "nothing there"


class Closed(Middleware):
    def inside(self, job: JobContext) -> AbstractContextManager[Any]:
        raise ConnectionError("no session to be had")


@pytest.mark.parametrize("colour", ["plain", "async"])
async def test_a_context_that_cannot_be_entered_is_an_error_of_the_job(app: Headrace, colour: str) -> None:
    runs: list[str] = []
    app.middleware.append(Closed())

    @app.task(retry=1)
    def plain() -> None:
        runs.append("plain")

    @app.task(retry=1)
    async def coroutine() -> None:
        runs.append("async")

    job = await (plain if colour == "plain" else coroutine).aenqueue()
    async with working(app):
        info = await ended(app, job.id, "failed")
    assert info.history[-1].message == "no session to be had"
    assert runs == []
