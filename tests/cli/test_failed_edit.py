"""Correcting a failed job from the command line: checked, compared, noted; and the message of one that is broken."""

import getpass
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace import Headrace
from headrace.core import operations as ops
from headrace.core.states import State
from tests.cli.conftest import Command

Fail = Callable[..., list[str]]


def args_of(shop: Headrace, id: str) -> object:
    info = shop.jobs.get(id)
    assert info is not None
    return info.args


def test_the_diff_is_shown_and_the_job_remembers(shop: Headrace, headrace: Command, fail: Fail) -> None:
    (id,) = fail(order_id=1, to="ann")
    result = headrace("failed", "edit", id, "--set", "order_id=2", "--set", "to=null", "--why", "wrong order")
    assert (result.code, result.err) == (0, "")
    assert result.lines == [
        "- order_id = 1",
        "+ order_id = 2",
        '- to = "ann"',
        "+ to = null",
        f"job {id} changed",
    ]
    assert args_of(shop, id) == {"order_id": 2, "to": None}
    shown = headrace("failed", "show", id).out
    assert f"edited by {getpass.getuser()}: wrong order\n  - order_id = 1\n  + order_id = 2\n" in shown
    (edit,) = json.loads(headrace("failed", "show", id, "--json").out)["edits"]
    assert (edit["why"], edit["diff"][0]) == ("wrong order", {"name": "order_id", "was": "1", "now": "2"})
    assert "edited by" in headrace("job", "show", id).out


def test_a_dry_run_checks_and_stores_nothing(shop: Headrace, headrace: Command, fail: Fail) -> None:
    (id,) = fail(order_id=1, note="x")
    dry = headrace("failed", "edit", id, "--set", "order_id=2", "--drop", "note", "--dry-run")
    assert (dry.code, dry.lines[-2:]) == (0, ['- note = "x"', f"job {id} would be changed"])
    assert args_of(shop, id) == {"order_id": 1, "note": "x"}
    same = headrace("failed", "edit", id, "--set", "order_id=1", "--json")
    assert (same.code, json.loads(same.out)) == (1, {"id": id, "stored": False, "diff": [], "notes": []})


def test_what_does_not_fit_is_refused_in_words(shop: Headrace, headrace: Command, fail: Fail) -> None:
    (id,) = fail(order_id=1)
    wrong = headrace("failed", "edit", id, "--set", "order_id=many")
    assert (wrong.code, wrong.out) == (2, "")
    assert "argument 'order_id' must be of type int, not str" in wrong.err
    assert "has no argument 'colour'" in headrace("failed", "edit", id, "--set", "colour=red").err
    assert "say what to change" in headrace("failed", "edit", id).err
    assert "write NAME=VALUE" in headrace("failed", "edit", id, "--set", "order_id").err
    absent = headrace("failed", "edit", "nobody", "--set", "a=1")
    assert (absent.code, "there is no job nobody" in absent.err) == (4, True)
    waiting = shop.tasks["mail"].enqueue(order_id=5)
    refused = headrace("failed", "edit", waiting.id, "--set", "order_id=2")
    assert (refused.code, "only a failed job can be edited" in refused.err) == (1, True)
    assert args_of(shop, id) == {"order_id": 1}


def test_a_decimal_stays_as_it_is_written(shop: Headrace, headrace: Command, fail: Fail) -> None:
    (id,) = fail(task="report", day="2030-01-01T00:00:00Z")
    result = headrace("failed", "edit", id, "--set", "price=1.100000000000000000001")
    assert (result.code, result.lines[0]) == (0, "+ price = 1.100000000000000000001")


def test_the_unique_key_stays_and_that_is_said(headrace: Command, fail: Fail) -> None:
    (id,) = fail(task="report", day="2030-01-01T00:00:00Z")
    result = headrace("failed", "edit", id, "--set", "day=2031-01-01T00:00:00Z")
    assert "its unique key stays 'report-2030-01-01" in result.err


EDITOR = """
import json, sys
path = sys.argv[1]
args = json.load(open(path))
assert args == {"order_id": 1, "note": "old"}, args
json.dump({"order_id": 7}, open(path, "w"))
"""


def test_an_editor_shows_all_arguments(
    shop: Headrace, headrace: Command, fail: Fail, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "editor.py").write_text(EDITOR)
    monkeypatch.setenv("EDITOR", f"{sys.executable} {tmp_path / 'editor.py'}")
    monkeypatch.delenv("VISUAL", raising=False)
    (id,) = fail(order_id=1, note="old")
    result = headrace("failed", "edit", id, "--editor")
    assert (result.code, result.lines[:3]) == (0, ["- order_id = 1", "+ order_id = 7", '- note = "old"'])
    assert args_of(shop, id) == {"order_id": 7}


def test_a_message_that_cannot_be_read_is_exported_and_forgotten(shop: Headrace, headrace: Command) -> None:
    body = b'\xff{"not": "an envelope"}\n\x00'
    shop.driver.run(ops.Enqueue((ops.NewJob("odd", "default", "mail", body),)))
    (job,) = shop.driver.run(ops.Claim("w1", 1, ("default",), 1, 30_000_000)).jobs
    outcome = ops.Outcome("odd", "default", job.token, State.FAILED, reason="unreadable")
    assert shop.driver.run(ops.Settle("w1", (outcome,))) == [True]
    refused = headrace("failed", "edit", "odd", "--set", "order_id=1")
    assert (refused.code, "can be looked at and forgotten, but not edited" in refused.err) == (2, True)
    command = [sys.executable, "-m", "headrace.cli", "failed", "show", "odd", "--raw"]
    raw = subprocess.run(command, capture_output=True, check=True, env={**os.environ, "PYTHONPATH": str(Path.cwd())})
    assert raw.stdout == body
    assert headrace("failed", "show", "nobody", "--raw").code == 4
    assert headrace("failed", "forget", "odd", "--yes").code == 0


def test_a_job_shows_which_code_enqueued_and_ran_it(shop: Headrace, headrace: Command) -> None:
    body = b'{"v":1,"id":"old","task":"mail","args":{"order_id":1},"code_version":"v41"}'
    shop.driver.run(ops.Enqueue((ops.NewJob("old", "mail", "mail", body),)))
    (job,) = shop.driver.run(ops.Claim("w1", 1, ("mail",), 1, 30_000_000)).jobs
    history = b'{"history":[{"kind":"error","at_us":5,"attempt":1,"worker":"w1","type":"E","version":"v42"}]}'
    outcome = ops.Outcome("old", "mail", job.token, State.FAILED, trail=history, reason="E")
    assert shop.driver.run(ops.Settle("w1", (outcome,))) == [True]
    shown = headrace("failed", "show", "old").out
    assert "enqueued by  version v41" in shown
    assert "attempt 1: error on w1, version v42" in shown
    fields = json.loads(headrace("failed", "show", "old", "--json").out)
    assert (fields["code_version"], fields["history"][0]["version"]) == ("v41", "v42")


def test_what_cannot_be_dropped_is_told(headrace: Command, fail: Fail) -> None:
    (id,) = fail(order_id=1, note="x")
    needed = headrace("failed", "edit", id, "--drop", "order_id")
    assert (needed.code, "mail() needs 'order_id', which has no default: it cannot go" in needed.err) == (2, True)
    unknown = headrace("failed", "edit", id, "--drop", "nte")
    assert (unknown.code, "there is no argument 'nte' to drop (did you mean 'note'?)" in unknown.err) == (2, True)
    absent = headrace("failed", "edit", id, "--drop", "to")
    assert (absent.code, absent.err) == (1, "it has no argument 'to' that could go\n")
    both = headrace("failed", "edit", id, "--drop", "note", "--set", "note=y")
    assert (both.code, "note is to be set and to be dropped" in both.err) == (2, True)
