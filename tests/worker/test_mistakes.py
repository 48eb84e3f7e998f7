"""What a handler returns by mistake, so that its effect or its decision would be lost, is an error of the run."""

from collections.abc import Callable
from typing import Any

import pytest

from headrace import Cancel, Fail, Headrace, Pending, RetryIn, Snooze
from headrace.jobinfo import JobInfo
from tests.worker.working import ended, virtually, working, working_virtually


async def failure_of(handler: Callable[..., Any], **options: Any) -> str:
    """How a job of `handler` fails, in words."""
    app = Headrace("memory://")
    task = app.task(name="ship", retry=1, **options)(handler)
    async with working(app):
        job = await task.aenqueue()
        return (await ended(app, job.id, "failed")).failure


async def effect() -> None:
    raise AssertionError("nobody runs it")


def forgotten() -> Any:
    return effect()


async def forgotten_too() -> Any:
    return effect()


@pytest.mark.parametrize("handler", [forgotten, forgotten_too])
@pytest.mark.parametrize("options", [{}, {"once": "ship"}])
async def test_a_coroutine_that_nobody_has_run_is_no_success(
    handler: Callable[..., Any], options: dict[str, Any]
) -> None:
    failure = await failure_of(handler, **options)
    assert failure.startswith("TypeError: ship returned a coroutine (effect), which nobody has run: make it async def")


@pytest.mark.parametrize("verdict", [Cancel, Fail, Pending, RetryIn, Snooze])
async def test_the_class_of_a_verdict_decides_nothing(verdict: type) -> None:
    async def handler() -> type:
        return verdict

    assert await failure_of(handler) == (
        f"TypeError: ship returned the class {verdict.__name__}, which says nothing: return {verdict.__name__}(...), "
        "with parentheses"
    )


def test_a_query_that_returns_the_class_has_no_answer() -> None:
    async def main(app: Headrace) -> JobInfo:
        @app.poll(every="1s", max_polls=3, retry=1)
        async def ask() -> object:
            return Pending

        async with working_virtually(app):
            return await ended(app, (await ask.aenqueue()).id, "failed")

    info = virtually(main)
    assert (info.reason, info.counts["polls"]) == ("TypeError", 0)
    assert "returned the class Pending" in info.failure


@pytest.mark.parametrize("verdict", [RetryIn, Snooze])
async def test_raised_as_a_class_it_lacks_its_delay(verdict: type[BaseException]) -> None:
    async def handler() -> None:
        raise verdict

    name = verdict.__name__
    assert await failure_of(handler) == f"TypeError: {name} needs a delay: raise or return {name}('30s')"
