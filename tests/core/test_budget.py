"""Retry budgets: what a window has room for, whoever asks how often, and whatever somebody else wrote there."""

import random

import pytest

from headrace.core.budget import HEARD, RetryBudget, SpendRetries
from headrace.core.registers import Changed

SECOND = 1_000_000
NAME = "budget:circuit:smtp"


class Spender:
    """A budget's register in one hand."""

    def __init__(self, **options: object) -> None:
        self.budget = RetryBudget(**options)  # type: ignore[arg-type]
        self.body: bytes | None = None
        self.now = 1_000_000 * SECOND
        self.requests = 0
        self.changed = Changed(None)

    def spend(self, retries: int = 0, *, firsts: int = 0, unused: int = 0, request: str = "") -> int:
        self.requests += 1
        change = SpendRetries(
            register=NAME,
            request=request or f"r{self.requests}",
            budget=self.budget,
            retries=retries,
            firsts=firsts,
            unused=unused,
        )
        self.changed = change.apply(self.body, self.now)
        self.body = self.changed.body
        granted: int = self.changed.answer
        return granted


def test_retries_are_a_share_of_first_attempts_and_a_minimum_beside() -> None:
    spender = Spender(share=0.2, window=60, minimum=10)
    assert spender.spend(100) == 10
    assert spender.spend(1) == 0
    spender.spend(firsts=100)
    assert spender.spend(100) == 20
    assert spender.spend(1) == 0


def test_the_window_moves_on() -> None:
    spender = Spender(share=0.5, window=10, minimum=0)
    spender.spend(firsts=20)
    spender.now += 5 * SECOND
    assert spender.spend(100) == 10
    spender.now += 5 * SECOND  # the first attempts are forgotten, the retries are not
    assert spender.spend(100) == 0
    spender.spend(firsts=40)
    assert spender.spend(100) == 10
    spender.now += 5 * SECOND
    assert spender.spend(100) == 10


def test_what_was_not_used_comes_back() -> None:
    spender = Spender(share=0, window=10, minimum=4)
    assert spender.spend(4) == 4
    spender.spend(unused=3)
    assert spender.spend(9) == 3


def test_a_request_that_is_sent_again_spends_nothing() -> None:
    spender = Spender(share=0.2, minimum=5)
    assert spender.spend(3, firsts=10, request="lost") == 3
    before = spender.body
    assert spender.spend(3, firsts=10, request="lost") == 3
    assert spender.body == before
    assert spender.spend(100) == 4
    for _ in range(2 * HEARD):
        spender.spend()
    assert spender.body is not None
    assert len(spender.body) < 30 * HEARD


@pytest.mark.parametrize("body", [b"", b"no json", b"[]", b'{"slots": 3}', b"\xff", b"[" * 100_000])
def test_what_another_program_wrote_is_put_up_with(body: bytes) -> None:
    spender = Spender(minimum=2)
    spender.body = body
    assert spender.spend(5) == 2


def test_a_clock_that_is_set_back_holds_up_nobody() -> None:
    spender = Spender(share=0, minimum=2)
    assert spender.spend(2) == 2
    spender.now -= 3600 * SECOND
    assert spender.spend(5) == 2
    assert spender.changed.keep_us == 120 * SECOND


def test_whatever_the_order_retries_stay_within_the_budget() -> None:
    rng = random.Random(5)
    for share, minimum in ((0.2, 10), (1.0, 0), (0, 3)):
        spender = Spender(share=share, window=10, minimum=minimum)
        events: list[tuple[int, int, int]] = []
        for _ in range(300):
            spender.now += rng.randrange(2 * SECOND)
            firsts = rng.randrange(30)
            granted = spender.spend(rng.randrange(20), firsts=firsts)
            events.append((spender.now, firsts, granted))
            slot = SECOND
            recent = [event for event in events if event[0] // slot > spender.now // slot - 10]
            # what was granted before may have been a share of first attempts that are forgotten by now
            assert not granted or sum(event[2] for event in recent) <= minimum + share * sum(
                event[1] for event in recent
            )
