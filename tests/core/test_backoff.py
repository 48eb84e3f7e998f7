"""Backoff: golden values, bounds for every jitter, and refused settings."""

import random
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.backoff import Backoff, Exponential, Fixed, Jitter, Listed, Stepped, parse_steps
from headrace.errors import ConfigError

RNG = random.Random(1)
LONG = 10**9  # a job that never gives up has this many retries some day


def delays(backoff: Backoff, count: int) -> list[float]:
    """The first `count` delays, each handed to the next as a worker does."""
    found: list[float] = []
    for retry in range(count):
        found.append(backoff.wait(retry, found[-1] if found else 0.0, random.Random(retry)))
    return found


@pytest.mark.parametrize(
    ("backoff", "expected"),
    [
        (Exponential(base=0.5, factor=2, cap=8, jitter="none"), [0.5, 1, 2, 4, 8, 8, 8]),
        (Exponential(jitter="none"), [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]),
        (Exponential(base=1, factor=1, cap=9, jitter="none"), [1, 1, 1]),
        (Exponential(base="1s", factor=3, cap="1m", jitter="none", floor=timedelta(seconds=5)), [5, 5, 9, 27, 60]),
        (Fixed(3), [3, 3, 3]),
        (Fixed("250ms"), [0.25, 0.25]),
        (Fixed(0), [0, 0]),
        (Listed([1, "5s", timedelta(minutes=1)]), [1, 5, 60, 60, 60]),
        (Listed(iter((2, 4))), [2, 4, 4]),
        (Stepped("1s x2, 5s x3, 30s"), [1, 1, 5, 5, 5, 30, 30]),
        (Stepped("1s*2,5sx1"), [1, 1, 5, 5, 5]),
        (Stepped("1h 30m x 2, 1ms"), [5400, 5400, 0.001, 0.001]),
        (Stepped([(1, 2), ("5s", 1)]), [1, 1, 5, 5]),
    ],
)
def test_golden_values(backoff: Backoff, expected: list[float]) -> None:
    assert delays(backoff, len(expected)) == expected
    assert delays(backoff, len(expected)) == expected  # nothing is used up
    assert backoff.wait(LONG, 1.0, RNG) == expected[-1]


def test_the_steps_of_the_poll_example() -> None:
    assert parse_steps("1s x5, 5s x5, 10s x10, 30s") == ((1.0, 5), (5.0, 5), (10.0, 10), (30.0, 1))
    waits = delays(Stepped("1s x5, 5s x5, 10s x10, 30s"), 23)
    assert waits == [1] * 5 + [5] * 5 + [10] * 10 + [30] * 3


@st.composite
def exponentials(draw: st.DrawFn) -> Exponential:
    base = draw(st.floats(0.001, 100))
    cap = base + draw(st.floats(0, 10_000))
    return Exponential(
        base=base,
        factor=draw(st.floats(1, 10) | st.integers(1, 10)),
        cap=cap,
        jitter=draw(st.sampled_from(get_args(Jitter))),
        floor=draw(st.just(0) | st.floats(0, base)),
    )


RETRIES = st.integers(0, 100) | st.integers(0, LONG)


@given(exponentials(), RETRIES, st.floats(0, 10_000), st.integers())
def test_a_delay_keeps_within_its_bounds(backoff: Exponential, retry: int, previous: float, seed: int) -> None:
    delay = backoff.wait(retry, previous, random.Random(seed))
    floor, base, cap, ceiling = float(backoff.floor), backoff.base, backoff.cap, backoff.ceiling(retry)  # type: ignore[arg-type]
    bounds: dict[str, tuple[Any, Any]] = {
        "none": (ceiling, ceiling),
        "full": (0, ceiling),
        "equal": (ceiling / 2, ceiling),
        "add": (ceiling, min(cap, ceiling * 1.5)),  # type: ignore[type-var]
        "decorrelated": (base, min(cap, max(3 * base, 3 * previous))),  # type: ignore[type-var, operator]
    }
    least, most = bounds[backoff.jitter]
    slack = 1 + 1e-9
    assert max(floor, least) / slack <= delay <= max(floor, most) * slack
    assert delay <= cap  # type: ignore[operator]


@given(exponentials(), RETRIES)
def test_the_ceiling_starts_at_base_and_never_falls(backoff: Exponential, retry: int) -> None:
    assert backoff.ceiling(0) == backoff.base
    assert backoff.ceiling(retry) <= backoff.ceiling(retry + 1) <= backoff.cap  # type: ignore[operator]


@given(exponentials(), st.integers())
def test_the_same_seed_gives_the_same_delay(backoff: Exponential, seed: int) -> None:
    one, other = (backoff.wait(3, 1.0, random.Random(seed)) for _ in range(2))
    assert one == other


@pytest.mark.parametrize("jitter", ["full", "equal", "add", "decorrelated"])
def test_jitter_spreads(jitter: Jitter) -> None:
    backoff = Exponential(base=1, cap=1000, jitter=jitter)
    rng = random.Random(7)
    values = [backoff.wait(4, 16.0, rng) for _ in range(2000)]
    low, high = {"full": (0, 16), "equal": (8, 16), "add": (16, 24), "decorrelated": (1, 48)}[jitter]
    assert len(set(values)) > 1900
    assert abs(sum(values) / len(values) - (low + high) / 2) < (high - low) * 0.03
    assert min(values) < low + (high - low) * 0.01
    assert max(values) > high - (high - low) * 0.01


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Fixed(-1), "delay is -1: it must lie between 0 seconds and 100 years"),
        (lambda: Fixed("soon"), "delay is 'soon', which is no duration: give seconds"),
        (lambda: Listed([]), "delays is empty: give at least one delay"),
        (lambda: Listed("1s, 2s"), "delays is '1s, 2s': give a list"),
        (lambda: Listed(5), "delays is 5: give a list"),  # type: ignore[arg-type]
        (lambda: Listed([1, -2]), "a delay of delays is -2: it must lie"),
        (lambda: Stepped(""), "steps is '' with an empty step: write them like '1s x5, 5s x3, 30s'"),
        (lambda: Stepped("1s,,2s"), "steps is '1s,,2s' with an empty step"),
        (lambda: Stepped("1s x0"), "steps has 0 times a delay of '1s': use a whole number of at least 1"),
        (lambda: Stepped("1s y5"), "a delay of steps is '1s y5', which is no duration"),
        (lambda: Stepped("x5"), "a delay of steps is 'x5', which is no duration"),
        (lambda: Stepped([]), "steps is empty: give at least one step, such as '30s'"),
        (lambda: Stepped([("1s", 2.5)]), "steps has 2.5 times a delay of '1s'"),  # type: ignore[list-item]
        (lambda: Stepped([5]), "steps has 5: give pairs"),  # type: ignore[list-item]
        (lambda: Exponential(base=0), "base is 0: it must be greater than 0, or use Fixed(0)"),
        (lambda: Exponential(base=-1), "base is -1: it must lie between"),
        (lambda: Exponential(factor=0.5), "factor is 0.5: it must be a number of at least 1"),
        (lambda: Exponential(factor=float("nan")), "factor is nan: it must be a number of at least 1"),
        (lambda: Exponential(factor=float("inf")), "factor is inf: it must be a number of at least 1"),
        (lambda: Exponential(factor="2"), "factor is '2': it must be"),  # type: ignore[arg-type]
        (lambda: Exponential(base=10, cap=5), "cap is 5 with a base of 10: raise the cap or lower the base"),
        (lambda: Exponential(cap=10, floor=20), "floor is 20 with a cap of 10: lower the floor or raise the cap"),
        (lambda: Exponential(jitter="some"), "jitter is 'some': use one of none, full, equal, decorrelated, add"),  # type: ignore[arg-type]
    ],
)
def test_a_refusal_names_the_field_the_value_and_the_fix(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigError, match=rf"\A{re.escape(message)}"):
        make()


def test_policies_are_values() -> None:
    assert Exponential(base=3) == Exponential(base=3)
    assert Exponential(base=3) != Exponential(base=4)
    assert {Fixed(1), Fixed(1), Stepped("1s"), Stepped([(1, 1)]), Listed([1]), Listed((1,))} == {
        Fixed(1),
        Stepped("1s"),
        Listed([1]),
    }
    with pytest.raises(AttributeError):
        Fixed(1).delay = 2  # type: ignore[misc]
