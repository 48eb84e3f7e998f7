"""Guarantees about once records: one holder at a time, results stored with the end of their job, growing fences."""

from __future__ import annotations

from functools import partial
from typing import Any

from headrace.core import operations as ops
from headrace.core.once_records import (
    FREE_KEEP_US,
    HELD_KEEP_US,
    EndOnce,
    LookOnce,
    OnceClaim,
    OnceTaken,
    RenewOnce,
    TakeOnce,
)
from headrace.core.states import TERMINAL, State
from headrace.testing.clock import MICROSECONDS
from headrace.testing.conformance.harness import LEASE, QUEUE, Harness, guarantee, job

SCOPE = "task"
PRINT, OTHER_PRINT = b"\x00\xff'\"\\%:?" * 4, b"o" * 32
RESULT = b'{"charged": "\\u20ac 17", "\xc3\xa4": null}'
KEEP = 3600 * MICROSECONDS


def claim_of(claimed: ops.ClaimedJob, key: str = "k", **options: Any) -> OnceClaim:
    """What a job asks for."""
    options.setdefault("fingerprint", PRINT)
    return OnceClaim(SCOPE, key, owner=claimed.id, token=claimed.token, queue=claimed.queue, **options)


def lease_of(owner: str, key: str = "k", **options: Any) -> OnceClaim:
    """What others ask for."""
    options.setdefault("fingerprint", PRINT)
    options.setdefault("lease_us", LEASE)
    return OnceClaim("", key, owner=owner, **options)


def take(h: Harness, claim: OnceClaim) -> OnceTaken:
    """The answer for one."""
    return h.run(TakeOnce((claim,)))[0]


def mine(h: Harness, claim: OnceClaim) -> int:
    """Take what must be free; its fence."""
    taken = take(h, claim)
    assert taken.status == "mine", taken
    assert taken.fence > 0
    return taken.fence


def end_of(fence: int, key: str = "k", *, scope: str = SCOPE, **options: Any) -> ops.OnceEnd:
    """How it ends: stored, for an hour."""
    options.setdefault("state", "done")
    options.setdefault("result", RESULT)
    options.setdefault("keep_us", KEEP)
    return ops.OnceEnd(scope, key, fence, **options)


def is_free(h: Harness, key: str = "k") -> bool:
    """Whether another job would get it. It ends by failing, which gives the record back."""
    claimed = h.running(job(f"probe{h.clock()}", queue="probes"), worker="probe")
    taken = take(h, OnceClaim(SCOPE, key, PRINT, claimed.id, claimed.token, QUEUE))
    assert h.settle(claimed, State.CANCELLED, worker="probe")
    return taken.status == "mine"


@guarantee
def of_two_jobs_with_one_once_key_one_holds_it(h: Harness) -> None:
    h.put("a", "b")
    a, b = h.take(2)
    fence = mine(h, claim_of(a))
    assert take(h, claim_of(b)) == OnceTaken("held", fence)
    assert [each.status for each in h.run(TakeOnce((claim_of(b), claim_of(b, "k2"))))] == ["held", "mine"]


@guarantee
def claims_of_one_operation_for_one_once_key_go_one_after_the_other(h: Harness) -> None:
    h.put("a", "b", "c")
    a, b, c = h.take(3)
    answers = h.run(TakeOnce((claim_of(a), claim_of(b), claim_of(c, fingerprint=OTHER_PRINT), claim_of(b, "k2"))))
    assert [each.status for each in answers] == ["mine", "held", "other", "mine"]
    assert answers[1].fence == answers[0].fence


@guarantee
def a_repeated_take_of_a_once_record_repeats_its_answer(h: Harness) -> None:
    a = h.running("a")
    first = take(h, claim_of(a))
    assert take(h, claim_of(a)) == first
    by_lease = take(h, lease_of("me"))
    h.clock.advance_us(LEASE // 2)
    assert take(h, lease_of("me")) == by_lease
    h.clock.advance_us(LEASE // 2)  # renewed by the repetition
    assert take(h, lease_of("you")).status == "held"


@guarantee
def a_once_result_is_stored_with_the_end_of_its_job(h: Harness) -> None:
    a = h.running("a")
    fence = mine(h, claim_of(a))
    assert h.settle(a, State.SUCCEEDED, once=end_of(fence))
    assert take(h, claim_of(h.running("b"))) == OnceTaken("done", fence, RESULT)
    view = h.run(LookOnce(SCOPE, "k", QUEUE))
    assert view is not None
    assert (view.state, view.owner, view.token, view.fence, view.result) == ("done", "a", a.token, fence, RESULT)
    assert view.lease_until_us is None


@guarantee
def a_once_failure_is_stored_with_the_end_of_its_job(h: Harness) -> None:
    a = h.running("a")
    fence = mine(h, claim_of(a))
    assert h.settle(a, State.FAILED, once=end_of(fence, state="failed", result=b'{"type":"Declined"}'))
    assert h.state("a") == State.FAILED
    assert take(h, claim_of(h.running("b"))) == OnceTaken("failed", fence, b'{"type":"Declined"}')


@guarantee
def a_once_result_may_be_missing_or_empty(h: Harness) -> None:
    for key, result in (("none", None), ("empty", b"")):
        claimed = h.running(key)
        fence = mine(h, claim_of(claimed, key))
        assert h.settle(claimed, State.SUCCEEDED, once=end_of(fence, key, result=result))
        assert take(h, claim_of(h.running(f"{key} again"), key)) == OnceTaken("done", fence, result)


@guarantee
def a_once_key_with_another_fingerprint_is_refused_while_it_is_held_or_done(h: Harness) -> None:
    h.put("a", "b")
    a, b = h.take(2)
    fence = mine(h, claim_of(a))
    assert take(h, claim_of(b, fingerprint=OTHER_PRINT)) == OnceTaken("other", fence)
    assert h.settle(a, State.SUCCEEDED, once=end_of(fence))
    assert take(h, claim_of(b, fingerprint=OTHER_PRINT)) == OnceTaken("other", fence)
    h.clock.advance_us(KEEP)
    assert mine(h, claim_of(h.running("c"), fingerprint=OTHER_PRINT)) > fence


@guarantee
def a_once_record_is_free_as_soon_as_its_job_runs_no_more(h: Harness) -> None:
    """Retried, snoozed, parked, given back, or ended without storing anything: whatever its lifetime."""
    for state in sorted(set(State) - {State.RUNNING}):
        claimed = h.running(f"a {state}")
        fence = mine(h, claim_of(claimed))
        assert h.settle(claimed, state, delay_us=LEASE, keep_us=KEEP)
        assert is_free(h), state
        assert state in TERMINAL or h.run(ops.Cancel(claimed.id)) == "cancelled"
        assert mine(h, claim_of(h.running(f"b {state}"))) > fence
        h.run(ops.Leave("w1", (QUEUE,)))
        h.run(ops.Cancel(f"b {state}"))


@guarantee
def a_once_record_is_free_when_its_worker_crashed_or_left(h: Harness) -> None:
    a = h.running("a")
    fence = mine(h, claim_of(a))
    h.crash()
    assert is_free(h)
    again = h.take(worker="w2")[0]
    second = mine(h, claim_of(again))
    assert second > fence
    h.run(ops.Leave("w2", (QUEUE,)))
    assert is_free(h)
    assert mine(h, claim_of(h.take(worker="w3")[0])) > second


@guarantee
def a_once_record_is_held_while_its_job_is_not_rescued(h: Harness) -> None:
    """The lease may be over: until somebody takes the job away, its worker may still beat and end it."""
    a = h.running("a")
    fence = mine(h, claim_of(a))
    h.clock.advance_us(10 * LEASE)
    assert not is_free(h)
    assert h.settle(a, State.SUCCEEDED, once=end_of(fence))
    assert take(h, claim_of(h.running("b"))).status == "done"


@guarantee
def an_old_holder_of_a_once_record_ends_nothing(h: Harness) -> None:
    """Nor does it end its job: that goes back, and runs again."""
    a = h.running("a")
    fence = mine(h, claim_of(a))
    before = h.get("a")
    assert not h.settle(a, State.SUCCEEDED, once=end_of(fence - 1))
    assert not h.settle(a, State.SUCCEEDED, once=end_of(fence, "another"))
    assert not h.settle(a, State.SUCCEEDED, once=end_of(fence, scope="another"))
    assert h.get("a") == before
    b = h.running("b")
    assert not h.settle(b, State.SUCCEEDED, once=end_of(fence))
    assert h.settle(a, State.SUCCEEDED, once=end_of(fence))
    assert h.state("b") == State.RUNNING


@guarantee
def of_many_settled_together_each_ends_its_own_once_record(h: Harness) -> None:
    h.put(*(f"j{n}" for n in range(6)))
    jobs = h.take(6)
    fences = [taken.fence for taken in h.run(TakeOnce(tuple(claim_of(each, each.id) for each in jobs[:4])))]
    outcomes = [
        ops.Outcome(
            each.id, each.queue, each.token, State.SUCCEEDED, once=end_of(fence, each.id, result=each.id.encode())
        )
        for each, fence in zip(jobs[:4], [fences[0], fences[1] + 1, fences[2], fences[3]], strict=True)
    ]
    plain = [ops.Outcome(each.id, each.queue, each.token, State.SUCCEEDED) for each in jobs[4:]]
    stale = ops.Outcome("j4", QUEUE, jobs[4].token - 1, State.SUCCEEDED, once=end_of(1))
    answers = h.settle_all([plain[0], outcomes[0], outcomes[1], plain[1], stale, *outcomes[2:]])
    assert answers == [True, True, False, True, False, True, True]
    assert h.state("j1") == State.RUNNING
    states = {key: h.run(LookOnce(SCOPE, key, QUEUE)) for key in ("j0", "j1", "j2", "j3")}
    assert {key: view and (view.state, view.result) for key, view in states.items()} == {
        "j0": ("done", b"j0"),
        "j1": ("held", None),
        "j2": ("done", b"j2"),
        "j3": ("done", b"j3"),
    }


@guarantee
def a_once_result_is_forgotten_after_its_lifetime_and_its_fence_grows_on(h: Harness) -> None:
    a = h.running("a")
    fence = mine(h, claim_of(a))
    assert h.settle(a, State.SUCCEEDED, once=end_of(fence, keep_us=KEEP))
    h.clock.advance_us(KEEP - 10)
    b = h.running("b")
    assert take(h, claim_of(b)).status == "done"
    h.clock.advance_us(10)
    assert mine(h, claim_of(b)) > fence


@guarantee
def a_once_fence_grows_when_the_clock_was_set_back(h: Harness) -> None:
    a = h.running("a")
    fence = mine(h, claim_of(a))
    assert h.settle(a, State.READY)
    by_lease = mine(h, lease_of("me"))
    assert h.run(EndOnce("me", end_of(by_lease, scope="", state="free")))
    h.clock.jump(-3600)
    assert mine(h, claim_of(h.take()[0])) > fence
    assert mine(h, lease_of("you")) > by_lease


@guarantee
def pruning_forgets_once_records_whose_time_is_over_and_no_others(h: Harness) -> None:
    a = h.running("a")
    assert h.settle(a, State.SUCCEEDED, once=end_of(mine(h, claim_of(a, "done")), "done"))
    for number in range(3):
        mine(h, lease_of("me", f"lease {number}"))
    assert h.run(EndOnce("me", end_of(mine(h, lease_of("me", "free")), "free", scope="", state="free")))
    b = h.running("b")
    mine(h, claim_of(b, "held"))
    found = {
        "done": LookOnce(SCOPE, "done", QUEUE),
        "held": LookOnce(SCOPE, "held", QUEUE),
        "lease": LookOnce("", "lease 0"),
        "free": LookOnce("", "free"),
    }

    def known() -> set[str]:
        while h.run(ops.Prune(limit=2)).more:
            pass
        return {name for name, look in found.items() if h.run(look) is not None}

    assert known() == {"done", "held", "lease", "free"}
    h.clock.advance_us(KEEP)
    assert known() == {"held", "lease", "free"}
    h.clock.advance_us(FREE_KEEP_US)
    assert known() == {"held", "lease"}
    h.clock.advance_us(HELD_KEEP_US)
    assert known() == set()


@guarantee
def a_lease_on_a_once_record_keeps_others_out_until_it_is_over(h: Harness) -> None:
    """B153: a holder that died is replaced after its lease, not after the lifetime of a result."""
    fence = mine(h, lease_of("me"))
    h.clock.advance_us(LEASE - 10)
    answer = take(h, lease_of("you"))
    assert (answer.status, answer.fence) == ("held", fence)
    assert 0 < answer.lease_us < 10
    h.clock.advance_us(10)
    second = mine(h, lease_of("you"))
    assert second > fence
    assert not h.run(RenewOnce("", "k", "me", LEASE))
    assert not h.run(EndOnce("me", end_of(fence, scope="")))
    assert not h.run(EndOnce("me", end_of(fence, scope="", state="free")))
    assert not h.run(EndOnce("me", end_of(second, scope="")))
    assert h.run(EndOnce("you", end_of(second, scope="")))


@guarantee
def a_lease_on_a_once_record_is_renewed_also_when_it_is_over_but_not_taken(h: Harness) -> None:
    fence = mine(h, lease_of("me"))
    h.clock.advance_us(LEASE // 2)
    assert h.run(RenewOnce("", "k", "me", LEASE))
    h.clock.advance_us(LEASE // 2)
    assert take(h, lease_of("you")).status == "held"
    h.clock.advance_us(LEASE)
    assert h.run(RenewOnce("", "k", "me", LEASE))
    assert take(h, lease_of("you")).status == "held"
    assert h.run(EndOnce("me", end_of(fence, scope="")))
    assert not h.run(RenewOnce("", "k", "me", LEASE))
    assert not h.run(RenewOnce("", "unknown", "me", LEASE))


@guarantee
def a_once_record_that_was_given_back_is_free_at_once(h: Harness) -> None:
    fence = mine(h, lease_of("me"))
    assert h.run(EndOnce("me", end_of(fence, scope="", state="free", result=None)))
    assert not h.run(RenewOnce("", "k", "me", LEASE))
    assert mine(h, lease_of("you", fingerprint=OTHER_PRINT)) > fence


@guarantee
def a_once_record_ended_by_its_lease_holder_answers_with_its_result(h: Harness) -> None:
    large = b"x" * 300_000
    fence = mine(h, lease_of("me"))
    assert h.run(EndOnce("me", end_of(fence, scope="", result=large)))
    assert h.run(EndOnce("me", end_of(fence, scope="", result=large)))  # its answer was lost
    assert take(h, lease_of("you")) == OnceTaken("done", fence, large)
    assert take(h, lease_of("me")) == OnceTaken("done", fence, large)
    assert not h.run(EndOnce("you", end_of(fence, scope="")))
    assert not h.run(EndOnce("me", end_of(fence, scope="", state="free")))


@guarantee
def a_once_record_of_a_lease_is_looked_at(h: Harness) -> None:
    assert h.run(LookOnce("", "k")) is None
    fence = mine(h, lease_of("me"))
    now = h.clock()
    view = h.run(LookOnce("", "k"))
    assert view is not None
    assert (view.state, view.owner, view.token, view.fence) == ("held", "me", 0, fence)
    assert view.lease_until_us == now + LEASE
    assert view.until_us == now + HELD_KEEP_US


@guarantee
def once_scopes_and_keys_are_kept_apart_whatever_they_hold(h: Harness) -> None:
    """Neither case, nor blanks at the end, nor where scope ends and key begins, nor half of a byte is lost."""
    names = ["a", "A", "a ", "ab", "\u00e4", "a\u0308", "%", "{}", ":", "'", '"', "\\", "\u20ac" * 500]
    owner = "owner-\u00e4"
    pairs = [(scope, key) for scope in ("", "a", "ab", "\u00e4:{}%") for key in names]
    fences = [h.run(TakeOnce((OnceClaim(scope, key, PRINT, owner, lease_us=LEASE),)))[0] for scope, key in pairs]
    assert {each.status for each in fences} == {"mine"}
    for (scope, key), taken in zip(pairs, fences, strict=True):
        view = h.run(LookOnce(scope, key))
        assert view is not None
        assert (view.fence, view.owner) == (taken.fence, owner)


@guarantee
def of_many_who_take_a_once_record_at_the_same_time_one_gets_it(h: Harness) -> None:
    """Thirty requests with one key: one takes effect."""
    for key in ("first", "second"):
        answers = h.parallel(*(partial(take, h, lease_of(f"owner {n}", key)) for n in range(30)))
        assert sorted(each.status for each in answers) == ["held"] * 29 + ["mine"]
        assert len({each.fence for each in answers}) == 1
    h.put(*(f"j{n}" for n in range(10)))
    jobs = h.take(10)
    halves = [tuple(claim_of(each, "shared") for each in some) for some in (jobs[:5], jobs[5:][::-1])]
    taken = [each for some in h.parallel(*(partial(h.run, TakeOnce(some)) for some in halves)) for each in some]
    assert sorted(each.status for each in taken) == ["held"] * 9 + ["mine"]


@guarantee
def many_takes_of_many_once_records_in_any_order_do_not_get_in_each_others_way(h: Harness) -> None:
    h.put(*(f"j{n}" for n in range(40)))
    jobs = h.take(40)
    sets = [tuple(claim_of(each, f"k{n}") for n, each in enumerate(jobs[start::4])) for start in range(4)]
    sets = [some[::-1] if place % 2 else some for place, some in enumerate(sets)]
    taken = [each for some in h.parallel(*(partial(h.run, TakeOnce(some)) for some in sets)) for each in some]
    assert sorted(each.status for each in taken) == ["held"] * 30 + ["mine"] * 10
