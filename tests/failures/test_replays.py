"""Replays of many failed jobs: each job once, paced, tried with canaries, cancelled, and resumed after a death."""

import asyncio
import threading
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from headrace import ConfigError, FailedFilter, Headrace, RepairError, State
from headrace.core import operations as ops
from headrace.core.registers import Amend
from headrace.core.replays import LEASE_US, REGISTERS, StepReplay, TakeReplay, decode
from headrace.failures.replaying import Driving, newest
from headrace.inquiries import Pause
from tests.failures.failing import claimed, fail, fail_many, failed, memory, ready, settle

ALL = FailedFilter()


def step_by_step(app: Headrace, id: str, driver: str = "me") -> Iterator[ops.Operation[object]]:
    """Drive a replay by hand: each operation is handed out after it was run."""
    inquiry = Driving(id, driver, None).drive()
    answer = None
    while True:
        try:
            operation = inquiry.send(answer)
        except StopIteration:
            return
        answer = None if isinstance(operation, Pause) else app.driver.run(operation)
        yield operation


def test_all_failed_jobs_are_replayed_with_id_options_and_key(shop: Headrace) -> None:
    ids = fail_many(shop, 5)
    ids.append(fail(shop, lambda: shop.tasks["charge"].using(tenant="t", priority=3).enqueue(1)))
    run = shop.jobs.replays.start(ALL, by="ann")
    assert (run.phase, run.by, run.total, failed(shop)) == ("running", "ann", None, 6)
    seen: list[tuple[int, int]] = []
    done = shop.jobs.replays.drive(run.id, progress=lambda number, total: seen.append((number, total)))
    assert (done.phase, done.replayed, done.skipped, done.total, done.driver) == ("done", 6, 0, 6, "")
    assert done.ended_us is not None
    assert seen[-1] == (6, 6)
    assert (failed(shop), ready(shop)) == (0, 6)
    info = shop.jobs.get(ids[-1])
    assert info is not None
    assert info.envelope is not None
    assert (info.envelope.tenant, info.priority, info.unique, info.counts["replays"]) == ("t", 3, "charge-1", 1)
    assert shop.jobs.replays.get(run.id) == done
    assert shop.jobs.replays.list() == [done]
    assert shop.jobs.replays.drive(run.id) == done


def test_two_operators_press_at_once_and_each_job_runs_once(shop: Headrace) -> None:
    """B135: also where the jobs of the first fail again before the second comes to them."""
    fail_many(shop, 10)
    first, second = shop.jobs.replays.start(ALL), shop.jobs.replays.start(ALL)
    late = step_by_step(shop, second.id, "second")
    for operation in late:
        if isinstance(operation, ops.List):
            break  # it has collected what is failed now
    assert shop.jobs.replays.drive(first.id).replayed == 10
    jobs = claimed(shop)
    assert len(jobs) == 10
    settle(shop, jobs, trail=memory(), reason="SMTPError")
    for operation in late:
        assert operation is not None
    assert shop.jobs.replays.get(second.id).replayed == 0
    assert (failed(shop), ready(shop)) == (10, 0)


def test_two_retries_of_all_at_once_make_one_run(shop: Headrace) -> None:
    """B135: 10 dead jobs, two parallel retries of all; they fail again: 10 dead jobs, 10 runs."""
    fail_many(shop, 10)
    answers: list[int] = []
    both = [threading.Thread(target=lambda: answers.append(shop.jobs.retry_failed().retried)) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert sum(answers) == 10
    jobs = claimed(shop)
    settle(shop, jobs, reason="SMTPError")
    assert (len(jobs), failed(shop)) == (10, 10)


def test_what_fails_after_the_start_is_left_alone(shop: Headrace) -> None:
    fail_many(shop, 2)
    run = shop.jobs.replays.start(ALL)
    fail_many(shop, 3)
    assert shop.jobs.replays.drive(run.id).total == 2
    assert (failed(shop), ready(shop)) == (3, 2)


def test_ids_and_filters_say_which(shop: Headrace) -> None:
    ids = fail_many(shop, 3)
    other = fail(shop, lambda: shop.tasks["charge"].enqueue(1))
    by_id = shop.jobs.replays.start(ids=[ids[0], "nobody", ids[0]])
    done = shop.jobs.replays.drive(by_id.id)
    assert (done.replayed, done.skipped, done.skips) == (1, 1, {"nobody": "absent"})
    by_filter = shop.jobs.replays.start(FailedFilter(task="charge", since=datetime(2020, 1, 1, tzinfo=UTC)))
    assert shop.jobs.replays.drive(by_filter.id).replayed == 1
    info = shop.jobs.get(other)
    assert info is not None
    assert (info.state, failed(shop)) == (State.READY, 2)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "give where= or ids="),
        ({"where": ALL, "ids": ["a"]}, "give where= or ids="),
        ({"ids": []}, "one replay takes 1 to 1,000"),
        ({"ids": [str(n) for n in range(1_001)]}, "use a filter for more"),
        ({"ids": ["x" * 201]}, "no id of a job"),
        ({"where": ALL, "canary": -1}, "canary is -1"),
        ({"where": ALL, "rate": 0}, "rate is 0"),
        ({"where": ALL, "rate": float("nan")}, "rate is nan"),
    ],
)
def test_what_cannot_be_meant_is_refused(options: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Headrace("memory://").jobs.replays.start(**options)  # type: ignore[arg-type]


# -- who drives it


def test_a_replay_whose_driver_died_is_resumed_by_another(shop: Headrace) -> None:
    fail_many(shop, 6)
    run = shop.jobs.replays.start(ALL, rate=2)
    for operation in step_by_step(shop, run.id, "the dead"):
        if isinstance(operation, ops.Replay):
            break  # dead before it has noted that it replayed two
    assert ready(shop) == 2
    with pytest.raises(RepairError, match=f"replay {run.id} is in the hands of the dead"):
        shop.jobs.replays.drive(run.id)
    over = TakeReplay(register=REGISTERS + run.id, driver="the dead", lease_us=0)
    shop.driver.run(Amend((over,)))
    assert shop.jobs.replays.drive(run.id).phase == "done"
    assert (failed(shop), ready(shop)) == (0, 6)


def test_an_interrupted_driver_lets_go(shop: Headrace) -> None:
    fail_many(shop, 2)
    run = shop.jobs.replays.start(ALL)

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        shop.jobs.replays.drive(run.id, progress=interrupt)
    left = shop.jobs.replays.get(run.id)
    assert (left.phase, left.driver, left.lease_until_us) == ("running", "", 0)
    assert shop.jobs.replays.drive(run.id).replayed == 2


def test_a_driver_that_was_frozen_stops_when_another_has_taken_it(shop: Headrace) -> None:
    fail_many(shop, 4)
    run = shop.jobs.replays.start(ALL, rate=1)
    frozen = step_by_step(shop, run.id, "the frozen")
    for operation in frozen:
        if isinstance(operation, ops.Replay):
            break
    shop.driver.run(Amend((TakeReplay(register=REGISTERS + run.id, driver="the frozen", lease_us=0),)))
    shop.driver.run(Amend((TakeReplay(register=REGISTERS + run.id, driver="another"),)))
    with pytest.raises(RepairError, match="is in the hands of another"):
        list(frozen)
    assert ready(shop) == 1


def test_a_step_that_is_heard_twice_counts_once(shop: Headrace) -> None:
    run = shop.jobs.replays.start(ALL)
    register = REGISTERS + run.id
    step = StepReplay(register=register, driver="d", phase="running", replayed=7, skips={})
    answers = shop.driver.run(Amend((TakeReplay(register=register, driver="d"), step, step)))
    assert [answer.run.replayed for answer in answers] == [0, 7, 7]


def test_a_replay_is_cancelled_from_elsewhere(shop: Headrace) -> None:
    fail_many(shop, 4)
    run = shop.jobs.replays.start(ALL, rate=1)
    driving = step_by_step(shop, run.id)
    for operation in driving:
        if isinstance(operation, ops.Replay):
            break
    cancelled = shop.jobs.replays.cancel(run.id, by="bob")
    assert (cancelled.phase, cancelled.why) == ("cancelled", "cancelled by bob")
    assert all(not isinstance(operation, ops.Replay) for operation in driving)
    assert (ready(shop), failed(shop)) == (1, 3)
    assert shop.jobs.replays.drive(run.id).phase == "cancelled"
    assert shop.jobs.replays.cancel(run.id) == cancelled


def test_what_is_not_there_is_said(shop: Headrace) -> None:
    for call in (shop.jobs.replays.get, shop.jobs.replays.drive, shop.jobs.replays.cancel):
        with pytest.raises(RepairError, match="there is no replay nothing"):
            call("nothing")
    assert shop.jobs.replays.list() == []


# -- pace


def test_the_pace_is_kept_by_the_clock_of_the_store(shop: Headrace) -> None:
    fail_many(shop, 5)
    run = shop.jobs.replays.start(ALL, rate=2)
    sizes: list[int] = []
    pauses: list[float] = [0.0]
    for operation in step_by_step(shop, run.id):
        if isinstance(operation, ops.Replay):
            sizes.append(len(operation.ids))
        elif isinstance(operation, Pause):
            pauses.append(operation.seconds)
        if len(sizes) == 2:
            break
    assert sizes == [2, 2]
    assert 0 < max(pauses) <= 1
    assert LEASE_US > 10 * 2_000_000


def test_coroutines_drive_it_too(shop: Headrace) -> None:
    fail_many(shop, 5)

    async def main() -> None:
        run = await shop.ajobs.replays.start(ALL, rate=1_000)
        done = await shop.ajobs.replays.drive(run.id)
        assert (done.phase, done.replayed) == ("done", 5)
        assert await shop.ajobs.replays.list() == [await shop.ajobs.replays.get(run.id)]
        assert (await shop.ajobs.replays.cancel(run.id)).phase == "done"

    asyncio.run(main())


# -- canaries


def until_looked(driving: Iterator[ops.Operation[object]]) -> None:
    """Go on until the canaries were looked at and nothing was found."""
    for operation in driving:
        if isinstance(operation, Pause):
            return
    raise AssertionError("it has ended")


def test_canaries_go_first_and_the_rest_follows(shop: Headrace) -> None:
    ids = fail_many(shop, 5)
    run = shop.jobs.replays.start(ALL, canary=2)
    driving = step_by_step(shop, run.id)
    until_looked(driving)
    assert (ready(shop), failed(shop)) == (2, 3)
    noted = shop.jobs.replays.get(run.id)
    assert (noted.phase, noted.replayed, noted.total) == ("canaries", 2, 5)
    jobs = claimed(shop)
    settle(shop, jobs[:1], State.SUCCEEDED)
    until_looked(driving)
    assert ready(shop) == 0
    settle(shop, jobs[1:], State.SUCCEEDED)
    list(driving)
    done = shop.jobs.replays.get(run.id)
    assert (done.phase, done.replayed, failed(shop), ready(shop)) == ("done", 5, 0, 3)
    assert {job.id for job in jobs} < set(ids)


@pytest.mark.parametrize("state", [State.FAILED, State.SCHEDULED])
def test_a_canary_that_fails_stops_the_replay(shop: Headrace, state: State) -> None:
    """Also where it will be tried again: one attempt is enough to know."""
    fail_many(shop, 3)
    run = shop.jobs.replays.start(ALL, canary=1)
    driving = step_by_step(shop, run.id)
    until_looked(driving)
    (job,) = claimed(shop)
    settle(shop, [job], state, trail=memory(message="still no answer"), reason="SMTPError", delay_us=LEASE_US)
    list(driving)
    stopped = shop.jobs.replays.get(run.id)
    assert (stopped.phase, stopped.replayed) == ("stopped", 1)
    assert stopped.why == f"canary {job.id} failed: SMTPError: still no answer"
    assert ready(shop) == 0


def test_canaries_are_looked_at_by_whoever_resumes(shop: Headrace) -> None:
    fail_many(shop, 3)
    run = shop.jobs.replays.start(ALL, canary=1)
    until_looked(step_by_step(shop, run.id, "the dead"))
    shop.driver.run(Amend((TakeReplay(register=REGISTERS + run.id, driver="the dead", lease_us=0),)))
    settle(shop, claimed(shop), State.SUCCEEDED)
    done = shop.jobs.replays.drive(run.id)
    assert (done.phase, done.replayed, ready(shop)) == ("done", 3, 2)


def test_a_canary_whose_driver_died_before_it_was_noted_is_waited_for(shop: Headrace) -> None:
    """It is skipped then, for it is not failed any more; so it is where the answer to its replay was lost."""
    ids = fail_many(shop, 3)
    run = shop.jobs.replays.start(ids=ids, canary=1)
    for operation in step_by_step(shop, run.id):
        if isinstance(operation, ops.Replay):
            break
    driving = step_by_step(shop, run.id)
    until_looked(driving)
    settle(shop, claimed(shop), State.SUCCEEDED)
    list(driving)
    done = shop.jobs.replays.get(run.id)
    assert (done.phase, done.replayed, done.skips, ready(shop)) == ("done", 2, {ids[0]: "is ready"}, 2)


def test_without_a_canary_nothing_is_known(shop: Headrace) -> None:
    """Its unique key is another job's by now."""
    old = fail(shop, lambda: shop.tasks["charge"].enqueue(1))
    new = shop.tasks["charge"].enqueue(1)
    run = shop.jobs.replays.start(FailedFilter(task="charge"), canary=3)
    stopped = shop.jobs.replays.drive(run.id)
    assert (stopped.phase, stopped.skips) == ("stopped", {old: f"duplicate of {new.id}"})
    none = shop.jobs.replays.start(FailedFilter(task="nobody"), canary=3)
    assert shop.jobs.replays.drive(none.id).phase == "done"


def test_canaries_are_taken_from_each_queue_in_turn() -> None:
    left: dict[str | None, list[str]] = {"a": ["1", "2", "3"], "b": ["4"]}
    assert [canary.id for canary in newest(left, 3)] == ["1", "4", "2"]
    assert newest({}, 3) == ()


def test_a_filter_of_a_newer_version_is_not_guessed_at() -> None:
    assert decode(b'{"id":"a","where":{"queue":"q"}}') is not None
    assert decode(b'{"id":"a","where":{"queue":"q","moon":"full"}}') is None
    assert decode(b"\xff") is None


# -- every store


async def test_a_replay_on_every_store(app: Headrace) -> None:
    """B135 on each store: paced, and driven twice at once."""

    @app.task(name="mail", retry=1)
    async def mail(number: int) -> None: ...

    await mail.aenqueue_many([{"number": number} for number in range(12)])
    claim = ops.Claim("w1", 1, ("default",), 100, 60_000_000)
    jobs = (await app.driver.arun(claim)).jobs
    outcomes = tuple(ops.Outcome(job.id, job.queue, job.token, State.FAILED, trail=memory()) for job in jobs)
    assert all(await app.driver.arun(ops.Settle("w1", outcomes)))
    edited = await app.ajobs.edit(jobs[0].id, {"number": 99}, by="ann", why="wrong")
    assert edited.stored
    (group,) = await app.ajobs.failure_groups()
    assert group.count == 12
    runs = [await app.ajobs.replays.start(FailedFilter(text="no answer"), rate=200) for _ in range(2)]
    done = await asyncio.gather(*(app.ajobs.replays.drive(run.id) for run in runs))
    assert sum(run.replayed for run in done) == 12
    info = await app.ajobs.get(jobs[0].id)
    assert info is not None
    assert (info.state, info.args, [edit.by for edit in info.edits]) == (State.READY, {"number": 99}, ["ann"])


def test_one_id_is_no_list_of_ids(shop: Headrace) -> None:
    with pytest.raises(ConfigError, match=r"ids is 'abc': give a list of ids, such as ids=\['abc'\]"):
        shop.jobs.replays.start(ids="abc")
