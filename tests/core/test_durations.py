"""Durations: every way to write one, and errors that name the field, the value and the fix."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.durations import LONGEST_S, Duration, micros, seconds
from headrace.errors import ConfigError


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, 0.0),
        (30, 30.0),
        (1.5, 1.5),
        (timedelta(minutes=5), 300.0),
        (timedelta(microseconds=1), 0.000001),
        ("250ms", 0.25),
        ("30s", 30.0),
        ("5m", 300.0),
        ("1h30m", 5400.0),
        ("1h 30m", 5400.0),
        (" 2 d ", 172_800.0),
        ("1w", 604_800.0),
        ("0.5s", 0.5),
        ("0s", 0.0),
    ],
)
def test_seconds(value: Duration, expected: float) -> None:
    assert seconds(value) == expected
    assert micros(value) == round(expected * 1_000_000)


@pytest.mark.parametrize(
    "value", ["", " ", "5", "m", "5 minutes", "5m3", "1h-2m", "-5s", "1,5s", "5M", "٥s", None, True, [5], b"5s", 5j]
)
def test_what_is_no_duration_is_refused(value: object) -> None:
    with pytest.raises(ConfigError) as caught:
        seconds(value, "timeout")  # type: ignore[arg-type]
    message = str(caught.value)
    assert message.startswith(f"timeout is {value!r}, which is no duration")
    assert "give seconds, a timedelta, or a text like '1h30m'" in message


@pytest.mark.parametrize(
    "value",
    [-1, -0.001, timedelta(seconds=-1), float("nan"), float("inf"), float("-inf"), 10**400, "9" * 400 + "s", 1.7e12],
)
def test_what_is_out_of_range_is_refused(value: Duration) -> None:
    with pytest.raises(ConfigError, match=r"\Atimeout is .*: it must lie between 0 seconds and 100 years\Z"):
        seconds(value, "timeout")


@given(st.integers(0, round(LONGEST_S) * 1_000_000))
def test_microseconds_survive(number: int) -> None:
    assert micros(timedelta(microseconds=number)) == number


@given(st.integers(0, 999), st.integers(0, 999), st.integers(0, 59), st.integers(0, 999))
def test_a_text_is_the_sum_of_its_parts(days: int, hours: int, minutes: int, thousandths: int) -> None:
    text = f"{days}d {hours}h{minutes}m {thousandths}ms"
    expected = timedelta(days=days, hours=hours, minutes=minutes, milliseconds=thousandths)
    assert micros(text) == expected // timedelta(microseconds=1)
