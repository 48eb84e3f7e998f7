"""When a poll asks next, and what becomes of it: as pure decisions."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core import endings, settle
from headrace.core.backoff import Exponential, Fixed, Listed, Stepped
from headrace.core.codec import decode
from headrace.core.operations import CANCELLED_KEEP_US, Outcome
from headrace.core.poll import PRESETS, RETRY, RETRY_BOUNDED, Polling, check_retry, default_retry, polling
from headrace.core.retry import Retry
from headrace.core.settle import SECOND, Policy
from headrace.core.states import State
from headrace.core.trail import EMPTY, Trail, replayed
from headrace.core.trail import decode as decode_trail
from headrace.core.trail import encode as encode_trail
from headrace.core.verdict import Cancel, Fail, Pending, RetryIn, Snooze
from headrace.errors import ConfigError
from tests.core.endings import NOW, end

RNG = random.Random(1)
DAY = 86_400 * SECOND
PENDING = endings.Decided(Pending("not paid"), NOW - 5)
STEPS = st.lists(st.tuples(st.integers(1, 10_000), st.integers(1, 8)), min_size=1, max_size=6)


def by(poll: Polling | None = None, retry: Retry = RETRY, in_s: float | None = 100) -> Policy:
    deadline_us = None if in_s is None else NOW + round(in_s * SECOND)
    return Policy(retry, deadline_us=deadline_us, poll=poll or polling("5s", 100))


def waits(poll: Polling, most: int) -> list[float]:
    """The delays after the first `most` answers, in seconds."""
    found = [poll.wait_us(number, 0, RNG) for number in range(1, most + 1)]
    return [delay_us / SECOND for delay_us in found if delay_us is not None]


# -- schedules


@given(STEPS, st.integers(0, 60))
def test_the_gaps_are_those_of_the_schedule_and_the_last_one_repeats(steps: list[tuple[int, int]], most: int) -> None:
    expected = [float(delay) for delay, times in steps for _ in range(times)]
    expected += [float(steps[-1][0])] * most
    text = ", ".join(f"{delay}s x{times}" for delay, times in steps)
    for every in (text, Stepped(steps), Listed([delay for delay, times in steps for _ in range(times)])):
        assert waits(polling(every, "1h"), most) == expected[:most]


@given(STEPS, st.floats(0, 1), st.integers(0, 2**32))
def test_jitter_stays_within_its_share(steps: list[tuple[int, int]], jitter: float, seed: int) -> None:
    rng = random.Random(seed)
    plain, spread = polling(Stepped(steps), "1h"), polling(Stepped(steps), "1h", jitter=jitter)
    for number in range(1, 20):
        exact, found = plain.wait_us(number, 0, rng), spread.wait_us(number, 0, rng)
        assert exact is not None
        assert found is not None
        assert abs(found - exact) <= exact * jitter + 1
    assert 0 <= spread.first_us(rng) <= steps[0][0] * SECOND * jitter + 1
    assert plain.first_us(rng) == 0


def test_the_presets_are_those_that_are_published_and_end() -> None:
    alipay, standard = polling("alipay"), polling("standard-webhooks")
    minutes = [4, 10, 10, 60, 120, 360, 900]
    assert waits(alipay, 20) == [60 * minute for minute in minutes]
    assert sum(minutes) == 24 * 60 + 24
    assert (alipay.most, alipay.jitter) == (8, 0)
    exact = Polling(standard.every, standard.give_up_us, standard.most)
    assert waits(exact, 20) == [5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400]
    assert sum(waits(exact, 20)) == 75 * 3600 + 35 * 60 + 5
    assert (standard.most, standard.jitter) == (10, 0.1)
    assert set(PRESETS) == {"alipay", "standard-webhooks"}


def test_a_preset_may_be_cut_short_or_go_on() -> None:
    assert waits(polling("alipay", max_polls=3), 20) == [240, 600]
    assert waits(polling("alipay", max_polls=9), 20)[-1] == 54_000
    assert polling("standard-webhooks", jitter=0).jitter == 0


def test_decorrelated_delays_know_the_one_before() -> None:
    poll = polling(Exponential(base=1, cap=60, jitter="decorrelated"), "1h")
    for number in range(1, 50):
        found = poll.wait_us(number, 10 * SECOND, RNG)
        assert found is not None
        assert SECOND <= found <= 30 * SECOND


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"every": "1s x5, 30s"}, r"'1s x5, 30s', whose last step repeats for ever: set give_up_after"),
        ({"every": Fixed(3)}, "set give_up_after, such as '10m', or max_polls"),
        ({"every": "alipai"}, "use 'alipay' or 'standard-webhooks', or steps such as '1s x5, 30s'"),
        ({"every": 5, "give_up_after": 9}, "every is 5: use a text such as"),
        ({"every": None, "give_up_after": 9}, "every is None: use a text such as"),
        ({"every": "1s, 0s", "give_up_after": 9}, "a delay of 0: the upstream would be asked without a pause"),
        ({"every": Fixed(0), "give_up_after": 9}, "a delay of 0"),
        ({"every": Listed([1, 0]), "give_up_after": 9}, "a delay of 0"),
        ({"every": "1s", "give_up_after": 0}, "give_up_after is 0"),
        ({"every": "1s", "give_up_after": -1}, "give_up_after is -1"),
        ({"every": "1s", "give_up_after": "soon"}, "give_up_after is 'soon'"),
        ({"every": "1s", "max_polls": 0}, "max_polls is 0: use a whole number of at least 1"),
        ({"every": "1s", "max_polls": True}, "max_polls is True"),
        ({"every": "alipay", "jitter": 1.5}, "jitter is 1.5: it is a share of each delay, from 0 to 1"),
        ({"every": "alipay", "jitter": float("nan")}, "jitter is nan"),
        ({"every": "alipay", "jitter": True}, "jitter is True"),
        ({"every": "alipay", "jitter": "full"}, "jitter is 'full'"),
    ],
)
def test_what_is_no_schedule_or_never_ends_is_refused(options: dict[str, Any], match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        polling(**options)


def test_errors_alone_keep_no_poll_for_ever() -> None:
    assert default_retry(polling("5s", 100)) == RETRY
    assert default_retry(polling("alipay")) == RETRY_BOUNDED
    for retry in (RETRY_BOUNDED, Retry(max_attempts=None, max_errors=9)):
        check_retry(polling("alipay"), retry)
    check_retry(polling("alipay", "1d"), RETRY)
    with pytest.raises(ConfigError, match="an upstream that only fails would be asked for ever"):
        check_retry(polling("alipay"), RETRY)


# -- answers


def test_an_answer_that_is_not_final_is_no_attempt_and_no_error() -> None:
    before = Trail(attempts=3, errors=4, crashes=2, snoozes=1, alone=True, delay_us=7 * SECOND)
    outcome, after = end(PENDING, before, by())
    assert (outcome.state, outcome.reason, outcome.delay_us) == (State.SCHEDULED, "pending", 5 * SECOND)
    assert (after.polls, after.attempts, after.errors, after.crashes, after.alone) == (1, 0, 4, 0, False)
    assert (after.snoozes, after.delay_us, after.has_started) == (1, 5 * SECOND, True)
    (told,) = after.history
    assert (told.kind, told.attempt, told.message) == ("pending", 1, "not paid")


def test_the_upstream_may_say_when_to_ask_again() -> None:
    for after_s, expected in ((90, 90), (0, 0), ("1.5s", 1.5)):
        outcome, kept = end(endings.Decided(Pending("slow down", after=after_s)), by=by())
        assert (outcome.state, outcome.delay_us, kept.polls) == (State.SCHEDULED, expected * SECOND, 1)


def test_the_query_that_would_come_too_late_is_the_end_instead() -> None:
    for in_s in (0.5, 5):
        outcome, kept = end(PENDING, by=by(in_s=in_s))
        assert (outcome.state, outcome.delay_us, kept.polls) == (State.SCHEDULED, in_s * SECOND, 1)
    assert end(PENDING, by=by(in_s=5.000001))[0].delay_us == 5 * SECOND
    for in_s in (0, -3):
        outcome, kept = end(PENDING, by=by(in_s=in_s))
        assert (outcome.state, outcome.reason, kept.polls) == (State.EXPIRED, "timed out", 1)
        assert outcome.keep_us == CANCELLED_KEEP_US


@pytest.mark.parametrize(
    "ending",
    [
        endings.Raised(OSError("down")),
        endings.TimedOut(5),
        endings.Decided(Snooze(500)),
        endings.Decided(RetryIn(500)),
        endings.Decided(Pending(after=500)),
    ],
)
def test_whatever_puts_it_off_puts_it_off_to_the_deadline_at_most(ending: endings.Ending) -> None:
    retry = Retry(max_attempts=None, backoff=Fixed(500))
    outcome, _ = end(ending, by=by(retry=retry, in_s=7))
    assert (outcome.state, outcome.delay_us) == (State.SCHEDULED, 7 * SECOND)
    outcome, kept = end(ending, by=by(retry=retry, in_s=0))
    assert (outcome.state, outcome.reason) == (State.EXPIRED, "timed out")
    assert kept.errors == isinstance(ending, endings.Raised | endings.TimedOut)


def test_its_time_may_be_over_before_a_query_begins() -> None:
    outcome, _ = end(endings.Expired("timed out"), Trail(polls=3), by())
    assert (outcome.state, outcome.reason, outcome.keep_us) == (State.EXPIRED, "timed out", CANCELLED_KEEP_US)


def test_a_schedule_that_ends_ends_the_poll() -> None:
    policy, kept, delays = by(polling("alipay"), RETRY_BOUNDED, None), EMPTY, list[float]()
    while (found := end(PENDING, kept, policy))[0].state is State.SCHEDULED:
        delays.append(found[0].delay_us / SECOND)
        kept = found[1]
    assert delays == [240, 600, 600, 3600, 7200, 21_600, 54_000]
    outcome, kept = found
    assert (outcome.state, outcome.reason, kept.polls) == (State.EXPIRED, "timed out", 8)
    late = endings.Decided(Pending(after=60))  # what the upstream asks for makes no schedule longer
    assert end(late, Trail(polls=7), policy)[0].state is State.EXPIRED


def test_errors_have_limits_of_their_own_since_the_last_answer() -> None:
    policy, kept = by(retry=Retry(3, backoff=Fixed(1))), EMPTY
    for _ in range(5):
        for _ in range(2):
            outcome, kept = end(endings.Raised(OSError("down")), kept, policy)
            assert (outcome.state, outcome.delay_us) == (State.SCHEDULED, SECOND)
        outcome, kept = end(PENDING, kept, policy)
        assert outcome.delay_us == 5 * SECOND
    assert (kept.polls, kept.errors, kept.attempts) == (5, 10, 0)
    outcomes = list[Outcome]()
    for _ in range(3):
        outcome, kept = end(endings.Raised(OSError("down")), kept, policy)
        outcomes.append(outcome)
    assert [outcome.state for outcome in outcomes] == [State.SCHEDULED, State.SCHEDULED, State.FAILED]
    assert outcomes[-1].reason == "OSError"


def test_errors_do_not_move_a_poll_on_in_its_schedule() -> None:
    policy = by(polling("1s, 10s", 100), Retry(max_attempts=None, backoff=Fixed(3)))
    _, kept = end(PENDING, EMPTY, policy)
    for _ in range(4):
        _, kept = end(endings.Raised(OSError("down")), kept, policy)
    assert end(PENDING, kept, policy)[0].delay_us == 10 * SECOND


def test_the_default_for_errors_goes_on_until_the_deadline() -> None:
    kept, policy = EMPTY, by(in_s=10**9)
    for _ in range(200):
        outcome, kept = end(endings.Raised(OSError("down")), kept, policy)
        assert outcome.state is State.SCHEDULED
        assert outcome.delay_us <= 30 * SECOND


@pytest.mark.parametrize(
    ("verdict", "state"), [(Fail("no such order"), State.FAILED), (Cancel("paid by webhook"), State.CANCELLED)]
)
def test_other_verdicts_keep_their_meaning(verdict: Fail | Cancel, state: State) -> None:
    outcome, kept = end(endings.Decided(verdict), Trail(polls=2), by())
    assert (outcome.state, kept.polls, kept.history[-1].message) == (state, 2, verdict.why)


def test_only_polls_may_answer_pending() -> None:
    outcome, kept = end(PENDING, by=Policy(Retry(max_attempts=None)))
    assert (outcome.state, outcome.reason) == (State.FAILED, "failed")
    assert kept.history[-1].message == "only a task made with @app.poll may return Pending"


def test_a_replayed_poll_begins_anew() -> None:
    again = decode_trail(replayed(encode_trail(Trail(polls=7, errors=2))))
    assert (again.polls, again.errors, again.replays) == (0, 0, 1)


# -- deadlines


def test_a_poll_from_elsewhere_has_the_deadline_of_its_task() -> None:
    foreign = decode(b'{"v":1,"id":"1","task":"t","args":{}}')
    poll = polling("5s", "3m")
    assert settle.limits(NOW, NOW + DAY, foreign, poll) == (None, NOW + DAY + 180 * SECOND)
    assert settle.limits(NOW, NOW, foreign, polling("alipay")) == (None, None)
    own = decode(b'{"v":1,"id":"1","task":"t","args":{},"deadline_in_us":9}')
    assert settle.limits(NOW, NOW, own, poll) == (None, NOW + 9)


# -- the verdict


def test_pending_says_why_and_when() -> None:
    assert Pending() == Pending()
    assert Pending("not paid", after="2m") == Pending("not paid", 120)
    assert Pending("not paid", after=120) != Pending("not paid")
    assert (Pending(after=1.5).after_us, Pending().after_us) == (1_500_000, None)
    with pytest.raises(ConfigError, match=r"Pending\(30\): the first argument says why; a delay is after=30"):
        Pending(30)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"Pending\('30s'\): the first argument says why; a delay is after='30s'"):
        Pending("30s")
    assert Pending("503 after 30s").why == "503 after 30s"
    with pytest.raises(ConfigError, match="after is -1"):
        Pending(after=-1)
