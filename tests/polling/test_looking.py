"""What an operator sees of a poll: how far it is, when the next query is, and when it gives up."""

import json
from datetime import timedelta

import pytest

from headrace import Headrace, Pending, explain
from headrace.cli.describe import job_fields, show_job
from headrace.inquiries import adrive
from headrace.jobinfo import JobInfo, PollInfo
from tests.polling.asking import Upstream
from tests.worker.working import virtually, work_for, working_virtually


def look(at: float, every: str = "1s x5, 5s x5, 10s x10, 30s") -> tuple[JobInfo, str]:
    """One poll of three minutes so many seconds after its enqueue, and what `why` says."""

    async def main(app: Headrace) -> tuple[JobInfo, str]:
        upstream = Upstream()

        @app.poll(every=every, give_up_after="3m")
        async def ask() -> Pending:
            answer: Pending = upstream.ask()
            return answer

        async with working_virtually(app):
            job = await ask.aenqueue()
            await work_for(at)
            info = await app.ajobs.get(job.id)
            assert info is not None
            now_us = round((info.enqueued.timestamp() + at) * 1_000_000)  # the app's own clock is not the virtual one
            return info, " ".join(await adrive(explain.why(job.id, now_us, app.tasks), app.driver))

    return virtually(main)


def test_a_poll_between_two_queries() -> None:
    info, why = look(7)
    assert info.poll == PollInfo(schedule="1s x5, 5s x5, 10s x10, 30s", answers=6, most=None, delay=5)
    assert info.counts["polls"] == 6
    assert info.deadline is not None
    assert round((info.due - info.enqueued).total_seconds(), 2) == 10
    assert info.deadline - info.enqueued == timedelta(minutes=3)
    assert "(1s x5, 5s x5, 10s x10, 30s): query 7 is next, 5 s after the last one." in why
    assert "Without a final answer it times out at 2023-11-14T22:16:20+00:00." in why
    assert "So far: 6 polls." in why


def test_a_poll_that_waits_for_its_end() -> None:
    info, why = look(170)
    assert info.due == info.deadline
    assert "It is a poll and times out at 2023-11-14T22:16:20+00:00, without another query." in why


def test_a_preset_counts_its_queries() -> None:
    info, why = look(10, "standard-webhooks")
    assert info.poll is not None
    assert (info.poll.answers, info.poll.most) == (2, 10)
    assert "It is a poll and times out at" in why


def test_a_poll_is_shown_as_text_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    info, _ = look(7)
    show_job(info, tracebacks=False)
    text = capsys.readouterr().out
    assert "1s x5, 5s x5, 10s x10, 30s" in text
    assert "6 not final, the next 5 s after the last" in text
    assert "answer 6: pending on w\n  not yet\n" in text
    fields = json.loads(json.dumps(job_fields(info)))
    assert fields["poll"] == {"schedule": "1s x5, 5s x5, 10s x10, 30s", "answers": 6, "most": None, "delay": 5.0}
    assert fields["deadline"] == "2023-11-14T22:16:20.000+00:00"
    assert fields["counts"]["polls"] == 6
    assert {one["kind"] for one in fields["history"]} == {"pending"}
