"""Who sends an alert, who looks, what has failed: each change by itself, and sent twice."""

from typing import Any

import pytest

from headrace.core.alerts import (
    MOST_SLICES,
    CountFailures,
    EndAlert,
    Failed,
    Failures,
    TakeAlert,
    Taken,
    TakeTurn,
    Turn,
    firing,
    register_of,
)
from headrace.core.registers import NAME, Change

SECOND = 1_000_000
NOW = 10_000 * SECOND


class Register:
    """Every change is sent twice: an answer may be lost."""

    def __init__(self) -> None:
        self.body: bytes | None = None
        self.now = NOW

    def amend(self, change: Change) -> Any:
        first = change.apply(self.body, self.now)
        again = change.apply(first.body, self.now)
        assert again.body == first.body
        assert again.answer == first.answer
        self.body = first.body
        return first.answer

    def take(self, by: str, cooldown: int = 60) -> Taken:
        change = TakeAlert(register="r", rule="rule", subject="q", by=by, cooldown_us=cooldown * SECOND)
        return self.amend(change)  # type: ignore[no-any-return]

    def end(self, by: str) -> Taken:
        return self.amend(EndAlert(register="r", by=by))  # type: ignore[no-any-return]

    @property
    def firing(self) -> set[tuple[str, str]]:
        return firing([] if self.body is None else [self.body])


def test_one_worker_sends_it_and_again_after_the_cooldown() -> None:
    register = Register()
    assert register.take("a") == Taken(mine=True, quiet_us=60 * SECOND, now_us=NOW)
    assert register.take("b") == Taken(mine=False, quiet_us=60 * SECOND, now_us=NOW)
    register.now += 59 * SECOND
    assert register.take("b") == Taken(mine=False, quiet_us=SECOND, now_us=register.now)
    register.now += SECOND
    assert register.take("b").mine
    assert not register.take("c").mine


def test_its_end_is_told_once_and_only_where_it_was_told() -> None:
    register = Register()
    assert not register.end("a").mine
    assert register.body is None
    register.take("a")
    assert register.firing == {("rule", "q")}
    assert register.end("b").mine
    assert not register.end("c").mine
    assert register.firing == set()


def test_what_flaps_is_told_once_in_each_cooldown() -> None:
    register = Register()
    register.take("a")
    register.end("b")
    register.now += 30 * SECOND
    assert not register.take("c").mine
    assert not register.end("d").mine
    register.now += 30 * SECOND
    assert register.take("e").mine
    assert register.end("f").mine


def test_the_turn_to_look_is_kept_by_its_holder_and_free_after_its_death() -> None:
    register = Register()

    def ask(by: str) -> bool:
        turn = register.amend(TakeTurn(register="t", by=by, lease_us=45 * SECOND))
        assert isinstance(turn, Turn)
        assert turn.now_us == register.now
        return turn.mine

    assert ask("a")
    register.now += 30 * SECOND
    assert (ask("b"), ask("a")) == (False, True)
    register.now += 44 * SECOND
    assert not ask("b")
    register.now += SECOND
    assert (ask("b"), ask("a")) == (True, False)


class Counting:
    def __init__(self) -> None:
        self.register = Register()
        self.reports = 0

    def report(self, *counts: tuple[str, str, int], window: int = 300, again: bool = False) -> Failed:
        self.reports += not again
        change = CountFailures(
            register="f",
            report=f"report-{self.reports}",
            counts=counts,
            window_us=window * SECOND,
            slice_us=15 * SECOND,
        )
        return self.register.amend(change)  # type: ignore[no-any-return]


def test_failures_of_all_workers_are_counted_by_queue_task_and_time() -> None:
    counting = Counting()
    assert counting.report().slices == ()
    assert counting.register.body is None
    counting.report(("mail", "send", 3), ("mail", "draw", 1))
    counting.report(("mail", "send", 2))
    counting.report(("mail", "send", 2), again=True)
    counting.register.now += 15 * SECOND
    failed = counting.report(("sms", "send", 1))
    at = NOW - NOW % (15 * SECOND)
    assert failed.slices == (
        Failures(at, "mail", "draw", 1),
        Failures(at, "mail", "send", 5),
        Failures(at + 15 * SECOND, "sms", "send", 1),
    )
    assert failed.within(15 * SECOND) == [failed.slices[-1]]


def test_old_failures_are_forgotten() -> None:
    counting = Counting()
    counting.report(("q", "t", 1))
    counting.register.now += 301 * SECOND
    assert counting.report().slices == ()
    assert counting.register.body is None


def test_what_is_remembered_of_failures_is_bounded() -> None:
    counting = Counting()
    for number in range(3):
        counting.report(*[("q", f"t{number}-{task}", 1) for task in range(1000)])
    assert len(counting.report().slices) == MOST_SLICES


@pytest.mark.parametrize("body", [b"\xff", b"[", b"{}", b"3", b"[" * 100_000])
def test_foreign_bodies_are_as_good_as_none(body: bytes) -> None:
    take = TakeAlert(register="r", rule="rule", subject="q", by="a", cooldown_us=SECOND).apply(body, NOW)
    assert take.answer.mine
    assert not EndAlert(register="r", by="a").apply(body, NOW).answer.mine
    assert TakeTurn(register="t", by="a", lease_us=SECOND).apply(body, NOW).answer.mine
    count = CountFailures(register="f", report="x", counts=(("q", "t", 1),), window_us=SECOND, slice_us=0)
    assert [one.count for one in count.apply(body, NOW).answer.slices] == [1]
    assert firing([body]) == set()


def test_names_fit() -> None:
    assert register_of("failed-growth", "mail") == "alert:failed-growth:mail"
    names = {register_of(rule, subject) for rule in ("r" * 100, "ü" * 100) for subject in ("s" * 500, "ö" * 200)}
    assert len(names) == 4
    assert all(len(name.encode()) <= NAME for name in names)
