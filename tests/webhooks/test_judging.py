"""What an answer means."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.webhooks.client import Answer
from headrace.webhooks.judging import Again, Delivered, Gone, Judgement, checked_success, describe, judge, retry_after

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
NOW_S = NOW.timestamp()


def kind(answer: Answer, success: object = "2xx") -> type[Judgement]:
    return type(judge(answer, success, NOW_S))  # type: ignore[arg-type]


@pytest.mark.parametrize("status", [100, 101, *range(200, 600), 999])
def test_each_status_has_its_meaning(status: int) -> None:
    expected = Delivered if 200 <= status < 300 else Gone if status == 410 else Again
    assert kind(Answer(status, b"whatever")) is expected


@pytest.mark.parametrize(
    ("answer", "meaning"),
    [
        (Answer(200, b"success"), Delivered),
        (Answer(201, b"success"), Delivered),
        (Answer(200, b"success\n"), Again),
        (Answer(200, b"SUCCESS"), Again),
        (Answer(200, b""), Again),
        (Answer(200, b"success", whole=False), Again),
        (Answer(302, b"success"), Again),
        (Answer(500, b"success"), Again),
        (Answer(410, b"success"), Gone),
    ],
)
def test_the_word_success_means_success_and_nothing_else_does(answer: Answer, meaning: type[Judgement]) -> None:
    assert kind(answer, "success") is meaning


def test_a_body_that_never_came_is_no_failure_where_the_status_counts() -> None:
    assert kind(Answer(200, b"o", whole=False)) is Delivered


def test_a_callable_decides_by_itself() -> None:
    def accepted(answer: Answer) -> bool:
        return answer.status == 202 or b'"ok"' in answer.body

    assert kind(Answer(202), accepted) is Delivered
    assert kind(Answer(500, b'{"code": "ok"}'), accepted) is Delivered
    assert kind(Answer(200), accepted) is Again
    assert kind(Answer(410), accepted) is Gone


@pytest.mark.parametrize("success", ["3xx", "", None, 200])
def test_an_agreement_that_is_none_is_refused(success: object) -> None:
    with pytest.raises(ConfigError, match="success is"):
        checked_success(success)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, 0),
        ("", 0),
        ("120", 120),
        (" 7 ", 7),
        ("0", 0),
        ("-5", 0),
        ("1.5", 0),
        ("soon", 0),
        ("\u0663", 0),
        ("9" * 400, 999_999_999_999),
        (format_datetime(NOW + timedelta(seconds=90), usegmt=True), 90),
        ("Mon, 30 Nov 2026 12:01:00 GMT", 60),
        ("Monday, 30-Nov-26 12:01:00 GMT", 60),
        ("Mon Nov 30 12:01:00 2026", 60),
        ("Mon, 30 Nov 2026 13:01:00 +0100", 60),
        ("Mon, 30 Nov 2026 11:00:00 GMT", 0),
        ("Mon, 99 Nov 2026 11:00:00 GMT", 0),
    ],
)
def test_retry_after_is_read(value: str | None, seconds: float) -> None:
    assert retry_after(value, NOW_S) == seconds


def test_retry_after_is_honoured_for_a_day_at_most() -> None:
    assert judge(Answer(429, retry_after="30"), "2xx", NOW_S) == Again("429", 30)
    assert judge(Answer(503, b"busy", retry_after="Mon, 30 Nov 2026 12:10:00 GMT"), "2xx", NOW_S) == Again(
        "503 busy", 600
    )
    assert judge(Answer(503, retry_after="9999999"), "2xx", NOW_S) == Again("503", 86_400)


@given(st.text() | st.from_regex(r"[A-Z][a-z]{2}, \d{1,3} [A-Z][a-z]{2} \d{1,5} \d{1,3}:\d{1,3}:\d{1,3} .{0,6}"))
def test_nonsense_in_retry_after_asks_for_nothing_unheard_of(value: str) -> None:
    assert 0 <= judge(Answer(429, retry_after=value), "2xx", NOW_S).wait_s <= 86_400  # type: ignore[union-attr]


def test_an_answer_is_told_in_one_line() -> None:
    assert describe(Answer(500, b"x" * 500)) == "500 " + "x" * 200
    assert describe(Answer(500, b"a\r\nb\x00\x1b[31m \xff")) == "500 a  b  [31m \ufffd"
    assert describe(Answer(204)) == "204"
