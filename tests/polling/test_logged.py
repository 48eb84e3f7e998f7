"""What the log says of a poll that has timed out: loud where its code or its upstream is broken, quiet otherwise."""

import logging
from typing import Any

import pytest

from headrace import Fixed, Headrace, Pending, Retry, Snooze
from tests.polling.asking import Upstream
from tests.worker.working import ended, virtually, work_for, working_virtually


def last_line(caplog: pytest.LogCaptureFixture, *answers: Any) -> logging.LogRecord:
    """What is logged at the end of a poll whose time is over after 35 s."""

    async def main(app: Headrace) -> str:
        upstream = Upstream(*answers)

        @app.poll(every="10s", give_up_after=35, keep="1h", retry=Retry(None, backoff=Fixed(10)))
        async def ask() -> Any:
            return upstream.ask()

        async with working_virtually(app):
            upstream.begin()
            job = await ask.aenqueue()
            await ended(app, job.id, "expired")
            return job.id

    with caplog.at_level(logging.INFO, "headrace"):
        id = virtually(main)
    return [record for record in caplog.records if record.getMessage().startswith(f"job {id}: expired")][-1]


def test_broken_code_is_seen(caplog: pytest.LogCaptureFixture) -> None:
    record = last_line(caplog, OSError("no route"))
    assert record.levelno == logging.ERROR
    assert record.getMessage().endswith("(timed out): it never had an answer; the last error: OSError: no route")
    assert record.exc_text is not None
    assert "upstream.ask()" in record.exc_text


def test_an_upstream_that_has_gone_away_is_seen(caplog: pytest.LogCaptureFixture) -> None:
    record = last_line(caplog, Pending(), OSError("no route"))
    assert record.levelno == logging.ERROR
    assert record.getMessage().endswith("1 answers, and then errors only; the last error: OSError: no route")


def test_a_poll_that_was_only_put_off_never_had_an_answer(caplog: pytest.LogCaptureFixture) -> None:
    record = last_line(caplog, Snooze(10))
    assert (record.levelno, record.exc_text) == (logging.ERROR, None)
    assert record.getMessage().endswith("(timed out): it never had an answer")


def test_answers_that_are_not_final_are_what_a_schedule_is_for(caplog: pytest.LogCaptureFixture) -> None:
    record = last_line(caplog, OSError("no route"), Pending("not paid"))
    assert (record.levelno, record.exc_text) == (logging.WARNING, None)
    assert record.getMessage().endswith("expired (timed out)")


def test_waiting_for_a_once_key_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    async def main(app: Headrace) -> None:
        @app.task(once="nightly", keep="1h")
        async def nightly() -> None:
            await work_for(3)

        async with working_virtually(app):
            jobs = [await nightly.aenqueue() for _ in range(2)]
            for job in jobs:
                await ended(app, job.id, "succeeded")

    with caplog.at_level(logging.INFO, "headrace"):
        virtually(main)
    levels = {record.levelno for record in caplog.records if "once key held" in record.getMessage()}
    assert levels == {logging.INFO}
