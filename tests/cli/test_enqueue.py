"""Enqueueing by hand, and by programs in other languages."""

import io
import json
import re
import sys
from pathlib import Path

import pytest

from headrace import Headrace
from headrace.core.codec import MAX_BODY
from tests.cli.conftest import Command


def args_of(shop: Headrace, id: str) -> object:
    info = shop.jobs.get(id)
    assert info is not None
    return info.args


@pytest.mark.parametrize(
    ("task", "given", "stored"),
    [
        ("mail", ["order_id=17"], {"order_id": 17}),
        ("mail", ["order_id=17", "note=17"], {"order_id": 17, "note": "17"}),
        ("mail", ["order_id=17", "to=17"], {"order_id": 17, "to": "17"}),
        ("mail", ["order_id=17", "to=null"], {"order_id": 17, "to": None}),
        ("mail", ["order_id=17", "note=a=b c"], {"order_id": 17, "note": "a=b c"}),
        ("mail", ["order_id=17", "note="], {"order_id": 17, "note": ""}),
        (
            "report",
            ["day=2030-01-31T00:00:00Z", "price=1.10", "colour=red", "rows=[1, 2]"],
            {"day": "2030-01-31T00:00:00Z", "price": "1.10", "colour": "red", "rows": [1, 2]},
        ),
        ("anything", ["a=1", "b=true", "c=text", 'd={"x": [1]}'], {"a": 1, "b": True, "c": "text", "d": {"x": [1]}}),
        ("mail", ["--args", '{"order_id": 17, "note": "x"}'], {"order_id": 17, "note": "x"}),
    ],
)
def test_values_are_read_as_the_task_declares_them(
    shop: Headrace, headrace: Command, task: str, given: list[str], stored: dict[str, object]
) -> None:
    result = headrace("enqueue", task, *given)
    assert (result.code, result.err) == (0, "")
    assert args_of(shop, result.out.strip()) == stored


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["mail", "order_id=x"], "'order_id'"),
        (["mail"], "order_id"),
        (["mail", "order_id=1", "colour=red"], "colour"),
        (["mail", "order_id"], "write NAME=VALUE"),
        (["mail", "=1"], "write NAME=VALUE"),
        (["mail", "order_id=1", "order_id=2"], "given twice"),
        (["mail", "order_id=\udcff"], "not valid UTF-8"),
        (["mail", "--args", "{"], "no JSON"),
        (["mail", "--args", "[1]"], "must be a JSON object"),
        (["mail", "--args", "[" * 100_000], "no JSON"),
        (["mail", "order_id=1", "--args", "{}"], "not both"),
        (["mali", "order_id=1"], "did you mean mail?"),
        (["nothing.like.it"], "it has anything, mail, report"),
        ([], "name a task"),
        (["mail", "order_id=1", "--in", "1s", "--at", "2030-01-31T00:00:00Z"], "--in or --at, not both"),
        (["mail", "order_id=1", "--at", "2030-01-31T00:00:00"], "has no offset"),
        (["mail", "order_id=1", "--at", "tomorrow"], "is no moment"),
        (["mail", "order_id=1", "--priority", "101"], "-100<=x<=100"),
        (["mail", "order_id=1", "--queue", "a b"], "queue is 'a b'"),
        (["mail", "order_id=1", "--header", "x"], "write NAME=VALUE"),
        (["mail", "order_id=1", "--unchecked"], "goes with --envelope only"),
        (["mail", "order_id=1", "--id", "a b"], "id is 'a b'"),
    ],
)
def test_bad_input_is_one_clear_error_and_exit_2(
    shop: Headrace, headrace: Command, given: list[str], message: str
) -> None:
    result = headrace("enqueue", *given)
    assert (result.code, result.out) == (2, "")
    assert message in result.err.splitlines()[-1]
    assert "Traceback" not in result.err
    assert not shop.jobs.queues()


def test_options_reach_the_job(shop: Headrace, headrace: Command) -> None:
    result = headrace(
        *("enqueue", "mail", "order_id=1", "--in", "5m", "--queue", "slow", "--priority", "9", "--tenant", "acme"),
        *("--tag", "a", "--tag", "b", "--header", "x=y=z", "--expires", "1h", "--deadline", "2h", "--timeout", "3s"),
        *("--unique", "order-{order_id}", "--id", "mine"),
    )
    assert (result.code, result.out) == (0, "mine\n")
    info = shop.jobs.get("mine")
    assert info is not None
    assert info.envelope is not None
    assert (info.queue, info.priority, info.unique, info.state) == ("slow", 9, "order-1", "scheduled")
    assert 299 <= (info.due - info.enqueued).total_seconds() <= 301
    envelope = info.envelope
    assert (envelope.tenant, envelope.tags, envelope.headers) == ("acme", ("a", "b"), {"x": "y=z"})
    assert (envelope.expires_in_us, envelope.deadline_in_us) == (3_600_000_000, 7_200_000_000)
    assert envelope.timeout_us == 3_000_000


def test_enqueueing_twice_says_so(headrace: Command) -> None:
    first = headrace("enqueue", "mail", "order_id=1", "--id", "mine", "--json")
    again = headrace("enqueue", "mail", "order_id=1", "--id", "mine", "--json")
    assert json.loads(first.out) == {"id": "mine", "status": "new"}
    assert (again.code, json.loads(again.out)) == (0, {"id": "mine", "status": "exists"})
    assert again.err == "job mine was enqueued before\n"
    held = headrace("enqueue", "mail", "order_id=1", "--unique", "k")
    duplicate = headrace("enqueue", "mail", "order_id=2", "--unique", "k")
    assert duplicate.out == held.out
    assert "holds the unique key" in duplicate.err


# -- envelopes


def envelope(id: str, **fields: object) -> str:
    return json.dumps({"v": 1, "id": id, "task": "mail", "queue": "mail", "args": {"order_id": 1}} | fields)


def feed(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(lines).encode())))


def test_another_language_enqueues(shop: Headrace, headrace: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message is plain JSON, its fields we do not know stay, and sending it again is harmless."""
    feed(monkeypatch, envelope("go-1", priority=3, mood="fine"), "", envelope("go-2", unique="u", unique_us=5_000_000))
    result = headrace("enqueue", "--envelope", "-")
    assert (result.code, result.out, result.err) == (0, "2 jobs enqueued\n", "")
    info = shop.jobs.get("go-1")
    assert info is not None
    assert (info.priority, info.queue, json.loads(info.body or b"")["mood"]) == (3, "mail", "fine")
    feed(monkeypatch, envelope("go-1"), envelope("go-3", unique="u"), envelope("go-4"))
    again = headrace("enqueue", "--envelope", "-", "--json")
    assert [json.loads(line) for line in again.lines] == [
        {"status": "exists", "id": "go-1"},
        {"status": "duplicate", "id": "go-2"},
        {"status": "new", "id": "go-4"},
    ]
    assert again.err == "1 job enqueued, 2 were there already\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not a JSON object"),
        ("[]", "not a JSON object"),
        ('{"v": 2, "id": "x"}', "version 2"),
        ('{"v": 1, "task": "mail", "args": {}}', "id"),
        (envelope("x", args=[1]), "args"),
        (envelope("x", args={"order_id": "y"}), "order_id"),
        (envelope("x", task="other"), "no task is named 'other'.*--unchecked"),
        (envelope("a b"), "id is 'a b'"),
        (envelope("x", queue="a b"), "queue is 'a b'"),
        (envelope("x", priority=1000), "priority is 1000"),
        (envelope("x", unique=""), "unique has 0 characters"),
        (envelope("x", unique="u", unique_us=0), "unique_us is 0"),
        (envelope("x", args={"order_id": 1, "note": "a" * MAX_BODY}), "1,000,000 are allowed"),
        (envelope("x", task="anything", args={"a": json.loads("[" * 70 + "]" * 70)}), "deeper than 64"),
        ('{"a":' * 100_000, "nested too deep"),
    ],
    ids=range(15),
)
def test_a_bad_envelope_is_named_by_its_line(
    shop: Headrace, headrace: Command, monkeypatch: pytest.MonkeyPatch, line: str, message: str
) -> None:
    """B102, B101: nothing of the batch is stored, and the error names the line and the field."""
    feed(monkeypatch, envelope("good"), line)
    result = headrace("enqueue", "--envelope", "-")
    assert (result.code, result.out) == (2, "")
    last = result.err.splitlines()[-1]
    assert last.startswith("headrace: line 2: ")
    assert last.endswith("; nothing is stored")
    assert re.search(message, last)
    assert not shop.jobs.queues()


def test_unchecked_enqueues_for_other_code(shop: Headrace, headrace: Command, tmp_path: Path) -> None:
    (tmp_path / "jobs.jsonl").write_text(envelope("x", task="other") + "\n" + envelope("y", args={"other": 1}))
    assert headrace("enqueue", "--envelope", "jobs.jsonl", "--unchecked").out == "2 jobs enqueued\n"
    assert [queue.ready for queue in shop.jobs.queues()] == [2]


def test_many_envelopes_go_in_chunks(headrace: Command, shop: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    feed(monkeypatch, *(envelope(f"n{number}") for number in range(2_500)), "{")
    result = headrace("enqueue", "--envelope", "-")
    assert result.code == 2
    assert "line 2501" in result.err
    assert "the first 2,000 jobs are stored; sending all again is safe" in result.err
    assert [queue.ready for queue in shop.jobs.queues()] == [2_000]


def test_envelopes_take_no_options(headrace: Command, tmp_path: Path) -> None:
    (tmp_path / "jobs.jsonl").write_text("")
    for extra in (["mail"], ["--queue", "q"], ["--args", "{}"]):
        result = headrace("enqueue", "--envelope", "jobs.jsonl", *extra)
        assert (result.code, "an envelope holds them" in result.err) == (2, True)
    assert headrace("enqueue", "--envelope", "missing.jsonl").code == 2
