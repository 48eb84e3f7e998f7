"""Holding a task whose jobs kill their workers: each change by itself, sent twice, and on a body of anybody's."""

from typing import Any

import pytest

from headrace.core.hold import (
    BURST,
    MOST_JOBS,
    Convict,
    Convicted,
    FreeTask,
    Hold,
    HoldChange,
    NoteRun,
    OfferHeld,
    TryAnother,
    decode,
    frees,
    is_reason,
    pace_of,
    reason_of,
    register_of,
)
from headrace.core.parking import REASON
from headrace.core.registers import NAME

SECOND = 1_000_000
HOUR = 3600 * SECOND
NOW = 1_000 * HOUR


class Register:
    """One task's, on a clock of its own. Every change is sent twice: an answer may be lost."""

    def __init__(self) -> None:
        self.body: bytes | None = None
        self.now = NOW

    def amend(self, change: HoldChange) -> Any:
        first = change.apply(self.body, self.now)
        again = change.apply(first.body, self.now + 1)
        assert again == first
        self.body = first.body
        return first.answer

    def convict(self, job: str, version: str = "1", after: int = 3) -> Convicted:
        return self.amend(Convict(register="r", task="t", version=version, job=job, after=after))  # type: ignore[no-any-return]

    def held(self) -> list[str]:
        hold = decode(self.body)
        return [] if hold is None else [one.version for one in hold.versions if one.held]

    def free(self, version: str | None = None, by: str = "x") -> Any:
        return self.amend(FreeTask(register="r", task="t", version=version, by=by))

    def attempt(self, version: str = "1", by: str = "w") -> Any:
        return self.amend(TryAnother(register="r", task="t", version=version, by=by))


def test_enough_different_jobs_have_a_task_held() -> None:
    register = Register()
    assert register.convict("a") == Convicted("1", 1, held=False, new=False)
    assert register.convict("a") == Convicted("1", 1, held=False, new=False)
    assert register.convict("b") == Convicted("1", 2, held=False, new=False)
    assert register.convict("c") == Convicted("1", 3, held=True, new=True)
    assert register.convict("d") == Convicted("1", 4, held=True, new=False)
    assert register.held() == ["1"]


def test_old_convictions_do_not_count_and_a_hold_outlives_them() -> None:
    register = Register()
    register.convict("a")
    register.convict("b")
    register.now += HOUR
    assert register.convict("c").crashes == 1
    register.convict("d")
    assert register.convict("e").held
    register.now += 100 * HOUR
    assert register.held() == ["1"]
    assert register.convict("f") == Convicted("1", 4, held=True, new=False)


def test_versions_are_counted_apart() -> None:
    register = Register()
    for version in ("1", "2"):
        for job in ("a", "b"):
            assert not register.convict(f"{job}{version}", version).held
    assert register.convict("c", "2").new
    assert register.held() == ["2"]


def test_a_job_counts_for_the_version_that_it_ran_under() -> None:
    """The worker that finds the bodies is the first of a new version, and has run none of them."""
    register = Register()
    for job in ("a", "b", "c"):
        assert register.amend(NoteRun(register="r", task="t", version="1", job=job)) is True
    assert [register.convict(job, "2").version for job in ("a", "b", "c")] == ["1"] * 3
    assert register.held() == ["1"]
    # it is held, and does not run
    assert register.amend(NoteRun(register="r", task="t", version="1", job="d")) is False
    register.amend(NoteRun(register="r", task="t", version="2", job="a"))
    assert register.convict("a", "3") == Convicted("2", 1, held=False, new=False)
    ran = Convict(register="r", task="t", version="3", job="a", after=3, ran=True)
    assert register.amend(ran) == Convicted("3", 1, held=False, new=False)


def test_another_version_is_news_once() -> None:
    register = Register()
    assert register.attempt() is False
    for job in ("a", "b", "c"):
        register.convict(job)
    assert register.attempt("2") is False
    assert register.attempt(by="w1") is True
    assert register.attempt(by="w2") is False
    assert register.held() == ["1"]  # for workers of that version it stays so


def test_an_operator_frees_one_version_or_all_and_counting_begins_anew() -> None:
    register = Register()
    assert register.free() == ()
    assert register.body is None
    for version in ("1", "2"):
        for job in ("a", "b", "c"):
            register.convict(job, version)
    assert register.free("1", by="x") == ("1",)
    assert register.held() == ["2"]
    assert register.convict("d").crashes == 1
    assert register.free("3", by="y") == ()
    assert register.free(by="z") == ("2",)
    assert register.held() == []
    assert register.convict("e").crashes == 1


def test_what_is_remembered_is_bounded() -> None:
    register = Register()
    for number in range(MOST_JOBS + 5):
        register.amend(NoteRun(register="r", task="t", version="1", job=f"job-{number}"))
    for number in range(MOST_JOBS + 5):
        register.convict(f"job-{number}", after=3)
    hold = decode(register.body)
    assert hold is not None
    assert len(hold.under("1").jobs) == len(hold.runs) == MOST_JOBS
    for number in range(30):
        register.convict("a", f"v{number}", after=1)
    assert len(register.held()) == 20


@pytest.mark.parametrize("body", [b"", b"\xff", b"[", b"{}", b"null", b'{"task":3}', b"[" * 100_000])
def test_foreign_bodies_are_as_good_as_none(body: bytes) -> None:
    assert decode(body) is None
    changed = Convict(register="r", task="t", version="", job="a", after=1).apply(body, NOW)
    assert changed.answer == Convicted("", 1, held=True, new=True)
    assert OfferHeld(register="p").apply(body, NOW).answer == BURST


def test_parked_jobs_come_back_at_a_pace_for_all_workers() -> None:
    body, given = None, 0
    for step in range(1000):  # a hundred askings a second, for ten seconds
        changed = OfferHeld(register="p").apply(body, NOW + step * 10_000)
        body, given = changed.body, given + changed.answer
    assert given == BURST + 99
    assert OfferHeld(register="p").apply(body, NOW + HOUR).answer == BURST
    assert OfferHeld(register="p").apply(body, NOW).answer == 0  # a clock that jumped back


def test_names_fit() -> None:
    assert reason_of("shop.mail", "v1") == "held shop.mail v1"
    assert reason_of("shop.mail", "") == "held shop.mail"
    assert register_of("shop.mail") == "hold:shop.mail"
    for task in ("t" * 1000, "ü" * 150):
        for name, most in ((register_of(task), NAME), (pace_of(task), NAME), (reason_of(task, "v"), REASON)):
            assert len(name.encode()) <= most
        assert is_reason(reason_of(task, "v"))
        assert len({reason_of(task, "1"), reason_of(task, "2")}) == 2
    assert not is_reason("circuit smtp")


@pytest.mark.parametrize(
    ("mine", "held", "answer"),
    [("2", "1", True), ("1", "1", False), ("", "1", False), ("1", "", True), ("", "", False)],
)
def test_who_may_run_what_is_held(mine: str, held: str, answer: bool) -> None:
    assert frees(mine, held) is answer


def test_a_register_names_its_task() -> None:
    register = Register()
    register.convict("a")
    hold = decode(register.body)
    assert isinstance(hold, Hold)
    assert hold.task == "t"


def test_to_free_what_is_not_held_leaves_its_count() -> None:
    register = Register()
    register.convict("a")
    register.convict("b")
    assert register.free() == ()
    assert register.convict("c").held
