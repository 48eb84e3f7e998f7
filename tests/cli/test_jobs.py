"""Looking at jobs and queues: show, cancel, list, why, check, doctor, schema."""

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from headrace import Headrace
from headrace.core import codec, trail
from headrace.core import operations as ops
from headrace.core.states import State
from tests.cli.conftest import Command

NASTY = "\x1b[31m\u202e\u8ba2\n\x00 \x9b end"


def without_controls(text: str) -> bool:
    return not [
        char for char in text if char != "\n" and (ord(char) < 32 or 127 <= ord(char) < 160 or char == "\u202e")
    ]


def test_a_waiting_job_is_shown(shop: Headrace, headrace: Command) -> None:
    job = shop.tasks["mail"].using(priority=7, tenant="acme", tags=["a", "b"]).enqueue(order_id=17, note="hello")
    result = headrace("job", "show", job.id)
    assert (result.code, result.err) == (0, "")
    shown = dict(line.split(None, 1) for line in result.lines if "  " in line and not line.startswith(" "))
    assert (shown["id"], shown["task"], shown["queue"], shown["state"]) == (job.id, "mail", "mail", "ready")
    assert (shown["priority"], shown["tenant"], shown["tags"]) == ("7", "acme", "a, b")
    assert result.out.endswith('arguments\n  order_id = 17\n  note = "hello"\n')


def test_a_job_as_json(shop: Headrace, headrace: Command) -> None:
    job = shop.tasks["mail"].using(headers={"x": "y"}).enqueue(order_id=17)
    result = headrace("job", "show", job.id, "--json")
    found = json.loads(result.out)
    assert (found["id"], found["state"], found["args"]) == (job.id, "ready", {"order_id": 17})
    assert found["envelope"] == {"v": 1, "id": job.id, "task": "mail", "queue": "mail", "headers": {"x": "y"}}
    assert datetime.fromisoformat(found["enqueued"]).tzinfo == UTC
    assert (found["started"], found["finished"], found["history"]) == (None, None, [])


def test_what_went_wrong_is_shown_and_harmless(headrace: Command, fail: Callable[..., list[str]]) -> None:
    """B094: a stored error text cannot move the cursor, turn the line around or forge lines."""
    (id,) = fail(message=NASTY, order_id=1, note=NASTY)
    for command in (("job", "show"), ("failed", "show"), ("why",)):
        result = headrace(*command, id)
        assert result.code == 0
        assert without_controls(result.out)
        assert "\\x1b[31m\\u202e\u8ba2" in result.out
    listing = headrace("failed", "list")
    assert without_controls(listing.out)
    assert len(listing.lines) == 2
    as_json = json.loads(headrace("failed", "show", id, "--json").out)
    assert as_json["args"]["note"] == NASTY
    assert as_json["history"][0]["at"] == "2023-11-14T22:13:20.000+00:00"


@pytest.mark.parametrize(
    "body",
    [
        b"\xff\xfe no JSON \x1b[2J",
        b'{"v": 9, "id": "x"}',
        b"[" * 100_000,
        b"",
        b'{"v":1,"id":"x","task":"mail","args":' + b'{"a":' * 900 + b"1" + b"}" * 901,
    ],
    ids=["bytes", "newer", "deep", "empty", "deep arguments"],
)
def test_an_unreadable_job_is_shown_all_the_same(shop: Headrace, headrace: Command, body: bytes) -> None:
    """B102, B141: whatever the store holds, an operator can look at it."""
    shop.driver.run(ops.Enqueue((ops.NewJob("odd", "mail", "mail", body),)))
    for command in (["job", "show", "odd"], ["job", "show", "odd", "--json"], ["why", "odd"], ["queue", "list"]):
        result = headrace(*command)
        assert (result.code, result.err) == (0, "")
        assert without_controls(result.out)
    assert json.loads(headrace("job", "show", "odd", "--json").out)["id"] == "odd"


def test_one_bad_job_does_not_break_the_list(shop: Headrace, headrace: Command, fail: Callable[..., list[str]]) -> None:
    """B141: the listing decodes no message."""
    (good,) = fail()
    shop.driver.run(ops.Enqueue((ops.NewJob("odd", "mail", "mail", b"\xff"),)))
    (claimed,) = shop.driver.run(ops.Claim("w2", 1, ("mail",), 1, 30_000_000)).jobs
    shop.driver.run(ops.Settle("w2", (ops.Outcome("odd", "mail", claimed.token, State.FAILED, reason="unreadable"),)))
    result = headrace("failed", "list")
    assert result.code == 0
    assert {line.split()[0] for line in result.lines[1:]} == {"odd", good}
    assert "cannot decode" in headrace("failed", "show", "odd").out


def test_a_missing_job_is_exit_4(headrace: Command) -> None:
    for command in (("job", "show"), ("failed", "show")):
        result = headrace(*command, "nobody\x1b")
        assert (result.code, result.out) == (4, "")
        assert result.err.startswith("headrace: there is no job nobody\\x1b")
    why = headrace("why", "nobody", "--json")
    assert (why.code, json.loads(why.out)["state"]) == (4, None)
    assert headrace("job", "cancel", "nobody").code == 4


def test_cancelling_says_what_came_of_it(shop: Headrace, headrace: Command) -> None:
    waiting, running = (shop.tasks["mail"].enqueue(order_id=number) for number in (1, 2))
    assert headrace("job", "cancel", waiting.id).lines == [f"job {waiting.id} cancelled"]
    assert headrace("job", "cancel", waiting.id).code == 1
    shop.driver.run(ops.Claim("w1", 1, ("mail",), 5, 30_000_000))
    result = headrace("job", "cancel", running.id, "--json")
    assert (result.code, json.loads(result.out)) == (0, {"id": running.id, "answer": "requested"})
    assert "asked to cancel" in headrace("job", "show", running.id).out


def test_queues_are_listed_with_counts_and_ages(
    shop: Headrace, headrace: Command, fail: Callable[..., list[str]]
) -> None:
    fail(2)
    shop.tasks["mail"].enqueue(order_id=1)
    shop.tasks["mail"].using(run_after=3600).enqueue(order_id=2)
    result = headrace("queue", "list")
    assert result.lines[0].split()[:6] == ["QUEUE", "READY", "SCHEDULED", "RUNNING", "PARKED", "FAILED"]
    assert result.lines[1].split()[:6] == ["mail", "1", "1", "0", "0", "2"]
    (found,) = map(json.loads, headrace("queue", "list", "--json").lines)
    assert (found["queue"], found["ready"], found["failed"], found["oldest_running"]) == ("mail", 1, 2, None)
    assert 0 <= found["oldest_ready_age_s"] < 60


def test_jobs_are_listed_by_state(shop: Headrace, headrace: Command) -> None:
    mail = shop.tasks["mail"]
    running, ready = mail.using(priority=1).enqueue(order_id=1), mail.enqueue(order_id=2)
    later = mail.using(run_after=3600).enqueue(order_id=3)
    shop.driver.run(ops.Claim("w1", 1, ("mail",), 1, 30_000_000))
    found = headrace("job", "list")
    assert found.lines[0].split() == ["ID", "QUEUE", "TASK", "STATE", "WHEN", "ATTEMPTS", "WORKER", "REASON"]
    rows = [(row[0], row[3], row[-2]) for row in map(str.split, found.lines[1:])]
    assert rows == [(running.id, "running", "w1"), (ready.id, "ready", "-"), (later.id, "scheduled", "-")]
    assert "  in 59 m " in found.lines[3]
    (one,) = headrace("job", "list", "--state", "running", "--queue", "mail", "--json").lines
    assert (json.loads(one)["id"], json.loads(one)["worker"]) == (running.id, "w1")


def test_a_list_of_jobs_has_pages(shop: Headrace, headrace: Command) -> None:
    ids = [shop.tasks["mail"].enqueue(order_id=number).id for number in range(3)]
    first = headrace("job", "list", "--limit", "2")
    assert [line.split()[0] for line in first.lines[1:]] == ids[:2]
    more, command = first.err.strip().split(": ")
    assert more == "there are more"
    assert headrace("job", "list", *command.split()).lines[1].split()[0] == ids[2]
    assert headrace("job", "list", "--cursor", "x").code == 2
    assert headrace("job", "list", "--state", "done").code == 2


def test_no_jobs_is_said_beside_the_output(shop: Headrace, headrace: Command) -> None:
    assert headrace("job", "list").err == "no unfinished jobs; --state shows others\n"
    nothing = headrace("job", "list", "--state", "running", "--task", "mail")
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "no running jobs match\n")


def test_workers_are_listed(shop: Headrace, headrace: Command) -> None:
    assert headrace("worker", "list").err == "no worker is running\n"
    shop.tasks["mail"].enqueue(order_id=1)
    shop.driver.run(ops.Claim("alive-1", 1, ("mail",), 1, 30_000_000))
    shop.driver.run(ops.Beat("gone-1", ("mail",), 1, (), 1))
    result = headrace("worker", "list")
    assert result.lines[0].split() == ["WORKER", "QUEUE", "STATE", "HOLDS", "LEASE"]
    assert [row.split()[2:4] for row in result.lines[1:]] == [["alive", "1"], ["gone", "0"]]
    found = [json.loads(line) for line in headrace("worker", "list", "--json").lines]
    assert [(one["worker"], one["alive"], one["held"]) for one in found] == [("alive-1", True, 1), ("gone-1", False, 0)]


def test_no_queue_yet_is_said_beside_the_output(headrace: Command) -> None:
    result = headrace("queue", "list")
    assert (result.code, result.out, result.err) == (0, "", "no queue has had a job yet\n")


def test_why_answers_in_sentences(shop: Headrace, headrace: Command) -> None:
    job = shop.tasks["mail"].enqueue(order_id=1)
    result = headrace("why", job.id)
    assert result.code == 0
    assert "ready in queue 'mail'" in result.out
    found = json.loads(headrace("why", job.id, "--json").out)
    assert (found["id"], found["state"], found["why"]) == (job.id, "ready", result.lines)


def test_what_went_wrong_before_is_not_why_a_job_runs(shop: Headrace, headrace: Command) -> None:
    """The reason of the last failure stays in the store until the next end."""
    shop.tasks["mail"].enqueue(order_id=1)
    claimed = shop.driver.run(ops.Claim("w1", shop.clock.unix_us(), ("mail",), 1, 30_000_000)).jobs[0]
    mishap = trail.Mishap("error", 1, 1, "w1", "SMTPError", "x" * 5_000)
    remembered = trail.encode(trail.Trail(attempts=1, errors=1, history=(mishap,)))
    again = ops.Outcome(claimed.id, "mail", claimed.token, State.READY, trail=remembered, reason="SMTPError")
    assert shop.driver.run(ops.Settle("w1", (again,))) == [True]
    assert "SMTPError" in headrace("job", "list").out
    assert max(map(len, headrace("why", claimed.id).lines)) <= 1_000
    shop.driver.run(ops.Claim("w1", shop.clock.unix_us(), ("mail",), 1, 30_000_000))
    assert "SMTPError" not in headrace("job", "list", "--state", "running").out
    assert json.loads(headrace("job", "list", "--json").out)["reason"] == "SMTPError"


def test_check_finds_jobs_that_this_code_would_break(shop: Headrace, headrace: Command) -> None:
    """B092, B098: a deploy that would break waiting jobs is noticed before it happens."""
    shop.tasks["mail"].enqueue(order_id=1)
    good = headrace("check", "--store")
    assert (good.code, good.out, good.err) == (0, "", "1 waiting job checked: all would run\n")
    bodies = {
        "renamed": b'{"v":1,"id":"renamed","task":"old","args":{}}',
        "changed": b'{"v":1,"id":"changed","task":"mail","args":{"order":1}}',
        "broken": b"nothing",
    }
    shop.driver.run(ops.Enqueue(tuple(ops.NewJob(id, "mail", "mail", body) for id, body in bodies.items())))
    bad = headrace("check", "--store", "--json")
    assert bad.code == 1
    assert {json.loads(line)["id"] for line in bad.lines} == set(bodies)
    assert bad.err == "4 waiting jobs checked: 3 would break\n"
    assert headrace("check", "--store", "--limit", "1").err == "1 of 4 waiting jobs checked: all would run\n"


def test_check_without_the_store_counts_tasks(headrace: Command) -> None:
    assert headrace("check").out == "3 tasks; --store checks the waiting jobs against them\n"
    assert json.loads(headrace("check", "--json").out) == {"tasks": ["anything", "mail", "report"]}


def test_doctor_tells_settings_and_finds_idle_queues(shop: Headrace, headrace: Command) -> None:
    shop.tasks["mail"].enqueue(order_id=1)
    result = headrace("doctor")
    assert result.code == 0
    assert "name shop, lease 30 s, heartbeat 10 s" in result.out
    found = [json.loads(line) for line in headrace("doctor", "--json").lines]
    assert {"level", "subject", "text", "fix"} <= set(found[0])
    (queue,) = [finding for finding in found if finding["subject"] == "queue mail"]
    assert (queue["level"], queue["fix"]) == ("warning", "start one: headrace work --queues mail")
    levels = [finding["level"] for finding in found]
    assert levels == sorted(levels, key=["error", "warning", "info", "ok"].index)


def test_the_schema_of_envelopes_is_printed(headrace: Command) -> None:
    schema = json.loads(json.dumps(codec.schema()))
    assert json.loads(headrace("schema", "envelope").out) == schema
    assert json.loads(headrace("schema", "envelope", "--json").out) == schema


def test_an_unreachable_store_is_exit_3_and_one_line(
    shop: Headrace, headrace: Command, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("closed")
    (folder / "shop.py").write_text('from headrace import Headrace\napp = Headrace("redis://:secret@127.0.0.1:1/0")')
    result = subprocess.run(
        [sys.executable, "-m", "headrace.cli", "queue", "list", "--app", "shop:app"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stdout) == (3, "")
    assert len(result.stderr.splitlines()) == 1
    assert "secret" not in result.stderr
