"""Correcting the arguments of failed jobs: checked first, nothing else changed, and noted with the job."""

import msgspec
import pytest

from headrace import (
    Headrace,
    InvalidArguments,
    PayloadTooLarge,
    RepairError,
    State,
    UnknownTask,
    UnreadableEnvelope,
)
from headrace.core import codec
from headrace.core import operations as ops
from headrace.core.trail import EDITS, Difference
from tests.failures.failing import claimed, fail, settle


def body_of(app: Headrace, id: str) -> bytes:
    info = app.jobs.get(id)
    assert info is not None
    assert info.body is not None
    return info.body


def test_an_edit_changes_the_arguments_and_is_noted(shop: Headrace) -> None:
    id = fail(shop, lambda: shop.tasks["mail"].using(tags=["x"], headers={"a": "b"}).enqueue(1, to="ann"))
    before = shop.jobs.get(id)
    assert before is not None
    answer = shop.jobs.edit(id, {"to": "bob"}, by="carol", why="she has left")
    assert (answer.stored, answer.task, answer.notes) == (True, "mail", ())
    assert answer.diff == (Difference("to", '"ann"', '"bob"'),)
    after = shop.jobs.get(id)
    assert after is not None
    assert after.args == {"number": 1, "to": "bob"}
    assert after.envelope is not None
    assert before.envelope is not None
    assert msgspec.structs.replace(after.envelope, args=before.envelope.args) == before.envelope
    (edit,) = after.edits
    assert (edit.by, edit.why, edit.diff) == ("carol", "she has left", answer.diff)
    assert edit.at_us > 0
    assert after.history == before.history
    shop.jobs.retry(id)
    (job,) = claimed(shop)
    assert bytes(codec.decode(job.body).args) == b'{"number":1,"to":"bob"}'
    replayed = shop.jobs.get(id)
    assert replayed is not None
    assert replayed.edits == after.edits


def test_arguments_come_and_go(shop: Headrace) -> None:
    id = fail(shop, lambda: shop.tasks["mail"].enqueue(1, to="ann"))
    assert shop.jobs.edit(id, {}, drop=["to"], by="x").diff == (Difference("to", '"ann"', None),)
    assert shop.jobs.edit(id, {"number": 2, "to": "b"}, drop=None, by="x").diff == (
        Difference("number", "1", "2"),
        Difference("to", None, '"b"'),
    )
    assert shop.jobs.edit(id, {"number": 2}, by="x").stored is False


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"number": "many"}, InvalidArguments, "argument 'number' must be of type int, not str"),
        ({"colour": 1}, InvalidArguments, "has no argument 'colour'; it takes"),
        ({"number": float("nan")}, InvalidArguments, "nan"),
        ({"to": "x" * codec.MAX_BODY}, PayloadTooLarge, "1,000,000 are allowed"),
    ],
)
def test_what_does_not_fit_is_not_stored(
    shop: Headrace, changes: dict[str, object], error: type[Exception], says: str
) -> None:
    id = fail(shop, lambda: shop.tasks["mail"].enqueue(1))
    before = body_of(shop, id)
    with pytest.raises(error, match=says):
        shop.jobs.edit(id, changes, by="x")
    assert body_of(shop, id) == before


def test_a_dry_run_changes_nothing(shop: Headrace) -> None:
    id = fail(shop, lambda: shop.tasks["mail"].enqueue(1))
    before = body_of(shop, id)
    answer = shop.jobs.edit(id, {"number": 2}, by="x", dry_run=True)
    assert (answer.stored, answer.diff) == (False, (Difference("number", "1", "2"),))
    assert body_of(shop, id) == before


def test_the_once_key_is_made_anew_and_the_unique_key_stays(shop: Headrace) -> None:
    id = fail(shop, lambda: shop.tasks["charge"].enqueue(1))
    answer = shop.jobs.edit(id, {"order_id": 2}, by="x")
    assert answer.notes == (
        "its once key is 'charge-2' now, which was 'charge-1'",
        "its unique key stays 'charge-1', though these arguments would make 'charge-2'",
    )
    info = shop.jobs.get(id)
    assert info is not None
    assert info.envelope is not None
    assert (info.unique, info.envelope.once_key) == ("charge-1", "charge-2")


def test_fields_that_are_not_known_stay_as_they_are(shop: Headrace) -> None:
    body = b'{"v":1,"id":"a","task":"mail","args":{"number":1},"zebra":{"deep":[1.0,1e5]},"code_version":"v1"}'
    shop.driver.run(ops.Enqueue((ops.NewJob("a", "default", "mail", body),)))
    settle(shop, claimed(shop), reason="X")
    shop.jobs.edit("a", {"number": 2}, by="x")
    assert body_of(shop, "a") == body.replace(b'"number":1', b'"number":2')


def test_only_failed_jobs_of_known_tasks_that_can_be_read_are_edited(shop: Headrace) -> None:
    bodies = {"bytes": b"\xff\xfe", "unknown": b'{"v":1,"id":"unknown","task":"mial","args":{}}'}
    jobs = tuple(ops.NewJob(id, "default", "mial", body) for id, body in bodies.items())
    shop.driver.run(ops.Enqueue(jobs))
    settle(shop, claimed(shop), reason="X")
    waiting = shop.tasks["mail"].enqueue(1)
    with pytest.raises(RepairError, match="is ready: only a failed job can be edited"):
        shop.jobs.edit(waiting.id, {"number": 1}, by="x")
    with pytest.raises(RepairError, match="there is no job nobody"):
        shop.jobs.edit("nobody", {}, by="x")
    with pytest.raises(UnknownTask, match="no task is named 'mial': did you mean mail"):
        shop.jobs.edit("unknown", {}, by="x")
    with pytest.raises(UnreadableEnvelope, match="can be looked at and forgotten, but not edited"):
        shop.jobs.edit("bytes", {}, by="x")
    info = shop.jobs.get("bytes")
    assert info is not None
    assert info.body == bodies["bytes"]
    assert shop.jobs.forget(["bytes", "unknown"]) == 2


def test_the_last_corrections_are_kept(shop: Headrace) -> None:
    id = fail(shop, lambda: shop.tasks["mail"].enqueue(0))
    for number in range(1, EDITS + 3):
        shop.jobs.edit(id, {"number": number}, by=f"operator {number}")
    info = shop.jobs.get(id)
    assert info is not None
    assert [edit.by for edit in info.edits] == [f"operator {number}" for number in range(3, EDITS + 3)]


def test_who_looked_first_does_not_write_over_who_wrote_first(shop: Headrace) -> None:
    id = fail(shop, lambda: shop.tasks["mail"].enqueue(1))
    info = shop.jobs.get(id)
    assert info is not None
    shop.jobs.edit(id, {"number": 2}, by="one")
    assert info.body is not None
    late = ops.Edit(id, "default", info.body, info.body.replace(b"1", b"3"), b"{}")
    assert shop.driver.run(late) is False
    assert info.state is State.FAILED


def test_jobs_note_the_code_that_enqueued_and_ran_them(shop: Headrace) -> None:
    id = fail(shop, lambda: shop.tasks["mail"].enqueue(1))
    info = shop.jobs.get(id)
    assert info is not None
    assert (info.code_version, info.history[0].version, info.history[0].worker) == ("v7", "v7", "w1")
