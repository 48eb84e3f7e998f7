"""Replaying failed jobs from the command line, and seeing which failures are the same."""

import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace import FailedFilter, Headrace
from tests.cli.conftest import Command
from tests.waiting import wait_until

Fail = Callable[..., list[str]]


def counts(shop: Headrace) -> tuple[int, int]:
    queues = shop.jobs.queues()
    return sum(queue.failed for queue in queues), sum(queue.ready for queue in queues)


def test_all_or_some_are_replayed(shop: Headrace, headrace: Command, fail: Fail) -> None:
    ids = [*fail(2), *fail(2, reason="timeout", message="too slow")]
    some = headrace("failed", "replay", "--text", "TOO SLOW", "--yes")
    assert (some.code, counts(shop)) == (0, (2, 2))
    (line,) = some.lines
    run = line.split()[1]
    assert line == f"replay {run} is done: 2 jobs made ready again"
    assert f"replay {run}: Ctrl-C leaves it to be resumed" in some.err
    one = headrace("failed", "replay", ids[0], ids[3], "--json")
    fields = json.loads(one.out)
    assert (one.code, fields["phase"], fields["replayed"], fields["skips"]) == (1, "done", 1, {ids[3]: "is ready"})
    assert headrace("failed", "replay", "--all", "--yes").code == 0
    assert counts(shop) == (0, 4)


def test_it_asks_first_and_a_dry_run_changes_nothing(
    shop: Headrace, headrace: Command, fail: Fail, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(3)
    dry = headrace("failed", "replay", "--all", "--dry-run")
    assert (dry.code, dry.lines[0], len(dry.lines)) == (0, "would replay 3 failed jobs", 4)
    assert json.loads(headrace("failed", "replay", "--all", "--dry-run", "--json").out)["replay"] == 3
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    refused = headrace("failed", "replay", "--error", "SMTPError")
    assert (refused.code, "replay 3 failed jobs of error SMTPError?" in refused.err) == (1, True)
    assert headrace("failed", "replay", "--tag", "none").err == "no failed jobs match\n"
    assert counts(shop) == (3, 0)
    assert headrace("failed", "replay", "--status").err == "no replays in the last 30 days\n"


def test_replays_are_shown_resumed_and_cancelled(shop: Headrace, headrace: Command, fail: Fail) -> None:
    fail(2)
    first = shop.jobs.replays.start(FailedFilter(task="mail"), by="ann")
    second = shop.jobs.replays.start(FailedFilter(), by="bob", canary=1)
    shown = headrace("failed", "replay", "--status")
    assert [line.split()[0] for line in shown.lines] == ["RUN", second.id, first.id]
    assert "ann  running, left" in shown.lines[2]
    cancelled = headrace("failed", "replay", "--cancel", second.id, "--by", "carol")
    assert (cancelled.code, cancelled.lines[0]) == (
        0,
        f"replay {second.id} is cancelled: 0 jobs made ready again; cancelled by carol",
    )
    assert headrace("failed", "replay", "--cancel", second.id).code == 1
    resumed = headrace("failed", "replay", "--resume", first.id)
    assert (resumed.code, resumed.out) == (0, f"replay {first.id} is done: 2 jobs made ready again\n")
    (one,) = headrace("failed", "replay", "--status", first.id, "--json").lines
    assert (json.loads(one)["phase"], json.loads(one)["where"]) == ("done", {"task": "mail"})
    absent = headrace("failed", "replay", "--resume", "nothing")
    assert (absent.code, "there is no replay nothing" in absent.err) == (4, True)
    both = headrace("failed", "replay", "--all", "--resume", first.id)
    assert (both.code, "stand alone" in both.err) == (2, True)


@pytest.mark.parametrize("value", ["fast", "0", "-1/s", "5/d"])
def test_a_wrong_rate_is_explained(headrace: Command, value: str) -> None:
    result = headrace("failed", "replay", "--all", f"--rate={value}")
    assert (result.code, "write 100/s, 30/m or 500/h" in result.err) == (2, True)


@pytest.mark.parametrize("value", ["yesterday", "2030-01-01T00:00"])
def test_a_wrong_moment_is_explained(headrace: Command, value: str) -> None:
    result = headrace("failed", "list", f"--since={value}")
    assert result.code == 2
    assert "no time zone" in result.err or "is no moment" in result.err


def test_times_and_tenants_narrow_the_list(shop: Headrace, headrace: Command, fail: Fail) -> None:
    ids = fail(2)
    for filtered in (["--since", "1h"], ["--since", "2020-01-01T00:00Z", "--until", "2100-01-01T00:00:00+02:00"]):
        assert {json.loads(line)["id"] for line in headrace("failed", "list", "--json", *filtered).lines} == set(ids)
    assert headrace("failed", "list", "--until", "1h").err == "no failed jobs match\n"
    assert headrace("failed", "list", "--tenant", "nobody").err == "no failed jobs match\n"


def test_a_day_begins_at_midnight_in_utc_and_advice_can_be_followed(headrace: Command, fail: Fail) -> None:
    (id,) = fail(1)
    for filtered in (["--since", "2020-01-01"], ["--until", "2100-01-01"]):
        assert [json.loads(line)["id"] for line in headrace("failed", "list", "--json", *filtered).lines] == [id]
    assert headrace("failed", "list", "--json", "--since", "2100-01-01").lines == []
    refused = headrace("failed", "list", "--since", "2020-01-01T05:00").err
    (advice,) = re.findall(r"write (\S+),", refused)
    assert [json.loads(line)["id"] for line in headrace("failed", "list", "--json", "--since", advice).lines] == [id]


def test_failures_are_grouped(headrace: Command, fail: Fail) -> None:
    fail(3)
    (other,) = fail(1, reason="timeout", task="anything", a=1)
    shown = headrace("failed", "groups")
    assert shown.lines[0].split() == ["FINGERPRINT", "JOBS", "FIRST", "LAST", "ERROR", "PLACE", "TASKS", "EXAMPLE"]
    first, second = (json.loads(line) for line in headrace("failed", "groups", "--json").lines)
    assert (first["count"], first["type"], first["tasks"]) == (3, "SMTPError", ["mail"])
    assert (second["count"], second["example"]) == (1, other)
    listed = headrace("failed", "list", "--json", "--fingerprint", second["fingerprint"])
    assert [json.loads(line)["id"] for line in listed.lines] == [other]
    assert headrace("failed", "groups", "--task", "x").err == "no failed jobs match: the app has no task 'x'\n"
    assert headrace("failed", "replay", "--fingerprint", first["fingerprint"], "--yes").code == 0


def test_ctrl_c_leaves_it_to_be_resumed(shop: Headrace, headrace: Command, fail: Fail) -> None:
    fail(3)
    command = [sys.executable, "-m", "headrace.cli", "failed", "replay", "--all", "--yes", "--rate", "1/h"]
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        wait_until(lambda: counts(shop) == (2, 1), 30, "the first job to be replayed")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    (run,) = shop.jobs.replays.list()
    assert process.returncode == 130
    assert f"go on with: headrace failed replay --resume {run.id}" in said
    assert (run.phase, run.driver, run.replayed) == ("running", "", 1)
    assert headrace("failed", "replay", "--cancel", run.id).code == 0


def test_what_matches_nothing_is_told_and_not_noted(shop: Headrace, headrace: Command, fail: Fail) -> None:
    fail(1)
    for option, typo, meant in [("--task", "maill", "mail"), ("--queue", "mial", "mail"), ("--reason", "Smtp", "")]:
        none = headrace("failed", "replay", option, typo, "--yes")
        hint = f": did you mean {option} {meant}?" if meant else ""
        assert (none.code, none.out, none.err) == (0, "", f"no failed jobs match, so nothing was replayed{hint}\n")
    assert "did you mean --reason SMTPError?" in headrace("failed", "list", "--reason", "SMTPErorr").err
    assert "did you mean --task mail?" in headrace("failed", "groups", "--task", "mial").err
    assert "there is no queue 'xyz'" in headrace("failed", "forget", "--queue", "xyz").err
    assert shop.jobs.replays.list() == []


def test_one_that_is_unknown_or_over_is_not_resumed(shop: Headrace, headrace: Command, fail: Fail) -> None:
    fail(1)
    run = shop.jobs.replays.start(FailedFilter())
    shop.jobs.replays.drive(run.id)
    over = headrace("failed", "replay", "--resume", run.id)
    assert (over.code, over.out, over.err) == (0, f"replay {run.id} is done: 1 job made ready again\n", "")
    for option in ("--resume", "--cancel", "--status"):
        unknown = headrace("failed", "replay", option, "nope")
        assert (unknown.code, unknown.out) == (4, "")
        assert unknown.err.startswith("headrace: there is no replay nope")
