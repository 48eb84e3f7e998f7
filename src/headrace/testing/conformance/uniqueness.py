"""Guarantees about unique keys: held while the job lives, free when it does not, and never left behind."""

from __future__ import annotations

from collections.abc import Callable

from headrace.core import operations as ops
from headrace.core.states import TERMINAL, State
from headrace.testing.clock import MICROSECONDS
from headrace.testing.conformance.harness import LEASE, QUEUE, Harness, guarantee, ids, job


def _held_by(h: Harness, holder: str, key: str = "k") -> bool:
    return h.enqueue(job("probe", unique=key)) == [ops.Enqueued("duplicate", holder)]


def _is_free(h: Harness, key: str = "k") -> bool:
    """Whether the key can be had; takes it and gives it back."""
    id = f"probe{h.clock()}"
    return h.status(job(id, unique=key)) == "new" and h.run(ops.Cancel(id)) == "cancelled"


@guarantee
def a_key_is_held_in_every_living_state(h: Harness) -> None:
    """B049, B050: waiting, running, retried, released and parked jobs, and one whose worker crashed or left."""
    h.put(job("a", unique="k", delay_us=MICROSECONDS))
    assert _held_by(h, "a")
    h.clock.advance(1)
    assert _held_by(h, "a")
    claimed = h.take(1)[0]
    assert _held_by(h, "a")
    for state in (State.READY, State.SCHEDULED):
        assert h.settle(claimed, state)
        assert _held_by(h, "a")
        claimed = h.take(1)[0]
    assert ids(h.crash()) == ["a"]
    assert _held_by(h, "a")
    h.take(1)
    h.run(ops.Leave("w1", (QUEUE,)))
    assert _held_by(h, "a")
    assert h.settle(h.take(1, worker="w2")[0], State.PARKED)
    assert _held_by(h, "a")
    assert h.state("probe") is None


@guarantee
def a_key_is_free_after_every_terminal_state(h: Harness) -> None:
    """B051: whether the job is kept or not."""
    for state in sorted(TERMINAL):
        for keep_us in (0, LEASE):
            claimed = h.running(job(f"{state} {keep_us}", unique="k"))
            assert _held_by(h, claimed.id)
            assert h.settle(claimed, state, keep_us=keep_us)
            assert _is_free(h), (state, keep_us)


@guarantee
def a_key_is_free_after_a_job_was_cancelled(h: Harness) -> None:
    """B054: waiting, scheduled and parked."""
    h.put(job("waiting", unique="k"))
    assert h.run(ops.Cancel("waiting")) == "cancelled"
    assert _is_free(h)
    h.put(job("scheduled", unique="k", delay_us=LEASE))
    assert h.run(ops.Cancel("scheduled", keep_us=LEASE)) == "cancelled"
    assert _is_free(h)
    assert h.settle(h.running(job("parked", unique="k")), State.PARKED)
    assert h.run(ops.Cancel("parked")) == "cancelled"
    assert _is_free(h)


@guarantee
def a_key_is_free_after_its_failed_job_was_forgotten_or_pruned(h: Harness) -> None:
    """B054, also when the key had been taken again by a replay."""
    removals: dict[str, Callable[[], int]] = {"a": lambda: h.run(ops.Forget(("a",))), "b": lambda: h.prune(most=0)}
    for id, remove in removals.items():
        h.finished(job(id, unique="k"), State.FAILED)
        assert h.run(ops.Replay((id,))).replayed == [id]
        assert _held_by(h, id)
        assert h.settle(h.take(1)[0], State.FAILED)
        assert remove() == 1
        assert _is_free(h)


@guarantee
def a_key_is_free_after_the_crash_limit(h: Harness) -> None:
    """B049: the job is failed by whoever claims it next."""
    h.running(job("a", unique="k"))
    h.crash()
    assert h.settle(h.take(1)[0], State.FAILED, reason="crashed")
    assert _is_free(h)


@guarantee
def a_duplicate_names_the_job_that_holds_the_key(h: Harness) -> None:
    h.put(job("a", unique="k"))
    answers = h.enqueue(job("b", unique="k"), job("c", unique="l"), job("d", unique="l"), job("e"))
    assert answers == [
        ops.Enqueued("duplicate", "a"),
        ops.Enqueued("new", "c"),
        ops.Enqueued("duplicate", "c"),
        ops.Enqueued("new", "e"),
    ]
    assert h.queue().ready == 3


@guarantee
def a_duplicate_leaves_nothing_behind(h: Harness) -> None:
    h.put(job("a", unique="k"))
    assert h.status(job("b", unique="k")) == "duplicate"
    assert h.state("b") is None
    assert h.run(ops.Cancel("b")) == "absent"
    assert h.settle(h.take(1)[0], State.SUCCEEDED)
    assert h.status(job("b", unique="k")) == "new"


@guarantee
def an_enqueue_repeated_by_id_finds_its_own_key(h: Harness) -> None:
    """The id is looked at first: a resend is no duplicate of itself."""
    h.put(job("a", unique="k"))
    assert h.enqueue(job("a", unique="k")) == [ops.Enqueued("exists", "a")]


@guarantee
def a_key_belongs_to_its_queue(h: Harness) -> None:
    h.put(job("a", "q1", unique="k"), job("b", "q2", unique="k"))
    assert h.enqueue(job("c", "q1", unique="k"), job("d", "q2", unique="k")) == [
        ops.Enqueued("duplicate", "a"),
        ops.Enqueued("duplicate", "b"),
    ]


@guarantee
def a_living_job_holds_its_key_beyond_the_keys_lifetime(h: Harness) -> None:
    """The lifetime only cleans keys whose job is gone."""
    h.put(job("a", unique="k", unique_us=MICROSECONDS))
    h.clock.advance(3600)
    h.run(ops.Prune())
    assert _held_by(h, "a")
    h.take(1)
    h.clock.advance(3600)
    assert _held_by(h, "a")


@guarantee
def a_key_until_start_is_free_once_the_job_runs(h: Harness) -> None:
    first = h.running(job("a", unique="k", unique_until="start"))
    h.put(job("b", unique="k", unique_until="start"))
    assert _held_by(h, "b")
    assert h.settle(first, State.READY)
    assert _held_by(h, "b")
    assert h.settle(h.take(1)[0], State.SUCCEEDED)
    assert _held_by(h, "b")


@guarantee
def an_older_job_never_frees_a_key_that_is_another_jobs(h: Harness) -> None:
    first = h.running(job("a", unique="k", unique_until="start"))
    h.put(job("b", unique="k"))
    assert h.settle(first, State.FAILED)
    assert _held_by(h, "b")
    assert h.run(ops.Forget(("a",))) == 1
    assert _held_by(h, "b")


@guarantee
def a_replay_takes_its_key_again(h: Harness) -> None:
    h.finished(job("a", unique="k"), State.FAILED)
    assert h.run(ops.Replay(("a",))).replayed == ["a"]
    assert _held_by(h, "a")
    assert h.get("a").unique == "k"


@guarantee
def a_replay_whose_key_is_taken_is_skipped_and_stays_failed(h: Harness) -> None:
    h.finished(job("a", unique="k"), State.FAILED)
    h.put(job("b", unique="k"))
    before = h.get("a")
    replayed = h.run(ops.Replay(("a",)))
    assert (replayed.replayed, replayed.skipped) == ([], {"a": "duplicate of b"})
    assert h.get("a") == before
    assert h.settle(h.take(1)[0], State.SUCCEEDED)
    assert h.run(ops.Replay(("a",))).replayed == ["a"]


@guarantee
def one_of_two_failed_jobs_with_one_key_is_replayed(h: Harness) -> None:
    h.finished(job("a", unique="k"), State.FAILED)
    h.finished(job("b", unique="k"), State.FAILED)
    replayed = h.run(ops.Replay(("a", "b")))
    assert (replayed.replayed, replayed.skipped) == (["a"], {"b": "duplicate of a"})


@guarantee
def producers_at_once_make_one_job_per_key(h: Harness) -> None:
    rounds = range(10)
    for number in rounds:
        names = [f"{number}-{n}" for n in range(4)]
        calls = [lambda name=name, key=f"k{number}": h.enqueue(job(name, unique=key))[0] for name in names]
        answers = h.parallel(*calls)
        assert sorted(answer.status for answer in answers) == ["duplicate", "duplicate", "duplicate", "new"]
        assert len({answer.id for answer in answers}) == 1
    assert h.queue().ready == len(rounds)
