"""Once records where rows are locked: who waits for whom, who must not, and what an old snapshot must not hide."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.core import operations as ops
from headrace.core.once_records import EndOnce, LookOnce, OnceClaim, OnceTaken, RenewOnce, TakeOnce
from headrace.core.states import State
from headrace.drivers.borrowed.connections import PyMySQL
from headrace.drivers.mysql import MySQLDriver
from headrace.drivers.mysql.line import Line
from headrace.errors import InvalidArguments
from headrace.testing.conformance.harness import LEASE, job
from headrace.testing.conformance.once import PRINT, claim_of, end_of
from tests.contract.prefixes import connect
from tests.process.mysql_jobs import HalfDone, ask, at_once, claim, enqueue, open_driver, while_half_done

LEVELS = pytest.mark.parametrize("level", ["repeatable read", "read committed", "serializable"])


@pytest.fixture
def driver(mysql_url: str, unique_name: str) -> Iterator[MySQLDriver]:
    driver = open_driver(mysql_url, unique_name)
    driver.run(ops.Prepare())
    yield driver
    driver.close()


@pytest.fixture
def begun(driver: MySQLDriver, mysql_url: str, unique_name: str) -> Iterator[Callable[[str], Any]]:
    """A caller's connection in a transaction whose snapshot is made."""
    connection = connect(mysql_url)

    def begin(level: str) -> Any:
        with connection.cursor() as cursor:
            cursor.execute(f"set session transaction isolation level {level}")
            cursor.execute("begin")
            cursor.execute("select 1 from information_schema.tables limit 1")
            if level != "serializable":  # its looks lock
                cursor.execute(f"select (select count(*) from {unique_name}_jobs), count(*) from {unique_name}_once")
        return connection

    yield begin
    connection.close()


def running(driver: MySQLDriver, *ids: str, number: int = 1) -> list[ops.ClaimedJob]:
    assert enqueue(driver.run, *ids) == ["new"] * len(ids)
    return claim(driver.run, number, len(ids))


def take(driver: MySQLDriver, *claims: OnceClaim) -> list[OnceTaken]:
    return driver.run(TakeOnce(claims))


def lent(driver: MySQLDriver, caller: Any, operation: ops.Operation[Any]) -> Any:
    return PyMySQL(caller).run(driver.store, operation)  # type: ignore[arg-type]


def done(claimed: ops.ClaimedJob, fence: int, key: str = "k", **options: Any) -> ops.Outcome:
    return ops.Outcome(claimed.id, claimed.queue, claimed.token, State.SUCCEEDED, once=end_of(fence, key), **options)


def deadlocks(url: str) -> int:
    """How many the server has seen."""
    found = ask(url, "select `count` from information_schema.innodb_metrics where name = 'lock_deadlocks'")
    return int(found[0][0])


def test_of_two_who_take_one_key_the_second_waits_and_is_told(driver: MySQLDriver, mysql_url: str) -> None:
    """It looked when there was no record yet."""
    a, b = running(driver, "a", "b")
    first, second = while_half_done(driver, mysql_url, TakeOnce((claim_of(a),)), TakeOnce((claim_of(b),)))
    assert [first[0].status, second] == ["mine", [OnceTaken("held", first[0].fence)]]


def test_of_two_who_take_a_free_record_over_one_gets_it(driver: MySQLDriver, mysql_url: str) -> None:
    a, b, c = running(driver, "a", "b", "c")
    fence = take(driver, claim_of(c))[0].fence
    driver.run(ops.Settle("w", (ops.Outcome("c", "q", c.token, State.CANCELLED),)))
    first, second = while_half_done(driver, mysql_url, TakeOnce((claim_of(a),)), TakeOnce((claim_of(b),)))
    assert first[0].status == "mine"
    assert first[0].fence > fence
    assert second == [OnceTaken("held", first[0].fence)]


def test_takers_in_opposite_orders_meet_no_deadlock(driver: MySQLDriver, mysql_url: str) -> None:
    """Of new keys, and of those that were free again, in batches that overlap."""
    keys = [f"k{n:02}" for n in range(40)]
    jobs = running(driver, *(f"j{n}" for n in range(6)))
    before = deadlocks(mysql_url)
    for _ in range(8):
        batches = [
            [claim_of(each, key) for key in (keys if place % 2 else keys[::-1])] for place, each in enumerate(jobs)
        ]
        answers = at_once(*(lambda batch=batch: take(driver, *batch) for batch in batches))  # type: ignore[misc]
        winners = [[one.status for one in batch].count("mine") for batch in answers]
        assert sum(winners) == len(keys)
        outcomes = [ops.Outcome(each.id, "q", each.token, State.READY) for each in jobs]
        assert driver.run(ops.Settle("w", tuple(outcomes))) == [True] * 6
        jobs = claim(driver.run, jobs[0].token, 6)  # a number that grows
    assert deadlocks(mysql_url) == before


def test_a_take_waits_for_no_transaction_that_ends_the_holder(driver: MySQLDriver) -> None:
    """One that completes a job may stay open for long, and a batch has other keys too."""
    a, b = running(driver, "a", "b")
    fence = take(driver, claim_of(a))[0].fence
    half = HalfDone(driver, ops.Settle("w", (done(a, fence),)))
    try:
        assert take(driver, claim_of(b), claim_of(b, "other")) == [
            OnceTaken("held", fence),
            OnceTaken("mine", driver.run(LookOnce("task", "other")).fence),  # type: ignore[union-attr]
        ]
    finally:
        assert half.commit() == [True]
    assert [each.status for each in take(driver, claim_of(b))] == ["done"]


def test_takes_settles_and_prunes_at_once_let_each_key_take_effect_once(driver: MySQLDriver) -> None:
    keys = [f"k{n}" for n in range(12)]
    jobs = [running(driver, *(f"{who}-{n}" for n in range(12)), number=who + 1) for who in range(4)]

    def work(who: int) -> list[str]:
        claims = [claim_of(each, key) for each, key in zip(jobs[who], keys[who:] + keys[:who], strict=True)]
        taken = take(driver, *claims)
        outcomes = [
            done(each, answer.fence, wanted.key)
            for each, wanted, answer in zip(jobs[who], claims, taken, strict=True)
            if answer.status == "mine"
        ]
        assert all(driver.run(ops.Settle("w", tuple(outcomes))))
        driver.run(ops.Prune(limit=3))
        return [each.once.key for each in outcomes if each.once is not None]

    effects = [key for some in at_once(*(lambda who=who: work(who) for who in range(4))) for key in some]  # type: ignore[misc]
    assert sorted(effects) == sorted(keys)
    assert {key: driver.run(LookOnce("task", key)).state for key in keys} == dict.fromkeys(keys, "done")  # type: ignore[union-attr]


@LEVELS
def test_a_job_completed_in_a_callers_transaction_ends_its_record_with_the_commit(
    driver: MySQLDriver, begun: Callable[[str], Any], level: str
) -> None:
    """Job and record are younger than the caller's snapshot; what follows is there when the caller has committed."""
    caller = begun(level)
    a, b = running(driver, "a", "b")
    fence = take(driver, claim_of(a))[0].fence
    settle = ops.Settle("w", (done(a, fence, then=(job("then", unique="u"), job("later", delay_us=LEASE))),))
    assert lent(driver, caller, settle) == [True]
    assert take(driver, claim_of(b)) == [OnceTaken("held", fence)]
    assert claim(driver.run, 2) == []
    caller.commit()
    assert [each.status for each in take(driver, claim_of(b))] == ["done"]
    assert [each.id for each in claim(driver.run, 3)] == ["then"]
    assert driver.run(ops.Get("a")) is None
    later = driver.run(ops.Get("later"))
    assert later is not None
    assert later.state == State.SCHEDULED


@LEVELS
def test_a_caller_who_rolls_back_leaves_job_and_record_as_they_were(
    driver: MySQLDriver, begun: Callable[[str], Any], level: str
) -> None:
    (a,) = running(driver, "a")
    fence = take(driver, claim_of(a))[0].fence
    caller = begun(level)
    assert lent(driver, caller, ops.Settle("w", (done(a, fence, then=(job("then"),)),))) == [True]
    caller.rollback()
    assert driver.run(ops.Get("then")) is None
    assert take(driver, claim_of(a))[0] == OnceTaken("mine", fence)
    assert driver.run(ops.Settle("w", (done(a, fence),))) == [True]


@LEVELS
def test_an_old_snapshot_completes_nothing_whose_record_has_gone_to_another(
    driver: MySQLDriver, mysql_url: str, unique_name: str, begun: Callable[[str], Any], level: str
) -> None:
    """The job still runs under its token, and as far as the caller can see the record is its own."""
    (a,) = running(driver, "a")
    fence = take(driver, claim_of(a))[0].fence
    caller = begun(level)
    ask(mysql_url, f"update {unique_name}_once set owner = 'b', token = 1, fence = fence + 1")
    follow = (job("then"),)
    assert lent(driver, caller, ops.Settle("w", (done(a, fence, then=follow),))) == [False]
    caller.commit()
    view = driver.run(ops.Get("a"))
    assert view is not None
    assert (view.state, view.token) == (State.RUNNING, a.token)
    assert driver.run(ops.Get("then")) is None
    assert driver.run(LookOnce("task", "k")).owner == "b"  # type: ignore[union-attr]


@LEVELS
def test_a_lease_ends_in_a_callers_transaction(driver: MySQLDriver, begun: Callable[[str], Any], level: str) -> None:
    """The record is younger than the snapshot of the caller, who commits the effect together with it."""
    caller = begun(level)
    wanted = OnceClaim("", "k", PRINT, "me", lease_us=LEASE)
    fence = take(driver, wanted)[0].fence
    assert lent(driver, caller, RenewOnce("", "k", "me", LEASE))
    assert not lent(driver, caller, EndOnce("me", end_of(fence - 1, scope="")))
    assert lent(driver, caller, EndOnce("me", end_of(fence, scope="")))
    caller.commit()
    assert [each.status for each in take(driver, wanted)] == ["done"]


def noted(driver: MySQLDriver, operation: Any) -> tuple[Any, list[str]]:
    """The answer, and which statements it took."""
    names: list[str] = []

    def plan() -> Any:
        steps = driver.store.plan(operation)
        try:
            step = next(steps)
            while True:
                names.append(step.sql)  # type: ignore[union-attr]
                step = steps.send((yield step))
        except StopIteration as stop:
            return stop.value

    line = Line(driver.address, driver._texts)
    try:
        return line.run(plan(), writes=True), names
    finally:
        line.drop()


def test_a_thousand_claims_are_a_handful_of_statements(driver: MySQLDriver) -> None:
    """New, repeated, held by others, free again, and ended."""
    first = running(driver, *(f"a{n:04}" for n in range(1000)))
    wanted = TakeOnce(tuple(claim_of(each, f"k{n}") for n, each in enumerate(first)))
    taken, new = noted(driver, wanted)
    assert {each.status for each in taken} == {"mine"}
    assert noted(driver, wanted)[0] == taken
    outcomes = [done(each, one.fence, f"k{n}") for n, (each, one) in enumerate(zip(first, taken, strict=True))]
    assert all(driver.run(ops.Settle("w", tuple(outcomes[:300]))))
    assert all(
        driver.run(ops.Settle("w", tuple(ops.Outcome(each.id, "q", each.token, State.PARKED) for each in first[700:])))
    )
    second = running(driver, *(f"b{n:04}" for n in range(1000)), number=2)
    again, mixed = noted(driver, TakeOnce(tuple(claim_of(each, f"k{n}") for n, each in enumerate(second))))
    assert [each.status for each in again] == ["done"] * 300 + ["held"] * 400 + ["mine"] * 300
    assert (len(new), len(mixed)) == (4, 7), (new, mixed)


def test_many_that_end_together_are_looked_at_one_by_one_only_where_one_is_not_its_jobs(driver: MySQLDriver) -> None:
    """The quick way is taken back, and each is answered for itself."""
    jobs = running(driver, *(f"{n:03}" for n in range(200)))
    taken = take(driver, *(claim_of(each, f"k{each.id}") for each in jobs))
    outcomes = [
        done(each, one.fence + (each.id == "150"), f"k{each.id}") for each, one in zip(jobs, taken, strict=True)
    ]
    quick, quickly = noted(driver, ops.Settle("w", tuple(outcomes[:100])))
    assert quick == [True] * 100
    assert "once.close" in quickly
    assert "settle.running" not in quickly
    slow, slowly = noted(driver, ops.Settle("w", tuple(outcomes[100:])))
    assert slow == [each.id != "150" for each in jobs[100:]]
    assert slowly.index("once.close") < slowly.index("settle.unfinish") < slowly.index("settle.running")
    assert slowly.count("once.close") == 2
    assert len(slowly) < 20
    states = {each.id: driver.run(LookOnce("task", f"k{each.id}")).state for each in jobs}  # type: ignore[union-attr]
    assert states == {each.id: "held" if each.id == "150" else "done" for each in jobs}
    assert [view.id for view in driver.run(ops.List(State.RUNNING)).jobs] == ["150"]


def test_a_record_in_a_state_that_is_none_of_ours_is_free(
    driver: MySQLDriver, mysql_url: str, unique_name: str
) -> None:
    (a,) = running(driver, "a")
    fence = take(driver, claim_of(a))[0].fence
    ask(mysql_url, f"update {unique_name}_once set state = %s, owner = %s, result = %s", *[b"\xff'\x00"] * 3)
    view = driver.run(LookOnce("task", "k"))
    assert view is not None
    assert (view.state, view.fence, view.result) == ("free", fence, b"\xff'\x00")
    again = take(driver, claim_of(a))[0]
    assert again.status == "mine"
    assert again.fence > fence
    assert driver.run(ops.Settle("w", (done(a, again.fence),))) == [True]


def test_the_longest_keys_fit_and_longer_ones_are_refused(driver: MySQLDriver) -> None:
    """Four bytes each; an index takes 3072."""
    scope, key = "\N{ROCKET}" * 250, "\N{ROCKET}" * 500
    claims = [OnceClaim(scope, key[:-1] + end, PRINT, "me", lease_us=LEASE) for end in ("a", "b")]
    assert [each.status for each in take(driver, *claims)] == ["mine", "mine"]
    for claimed in (OnceClaim(scope, key + "b", PRINT, "me"), OnceClaim(scope + "b", key, PRINT, "me")):
        with pytest.raises(InvalidArguments, match="on MySQL it may have"):
            take(driver, claimed)
