"""Failed jobs: list, retry, forget and prune, by id, from a pipe, by filter, with confirmation."""

import io
import json
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from headrace import Headrace
from headrace.core import operations as ops
from headrace.core.states import State
from tests.cli.conftest import Command

Fail = Callable[..., list[str]]


def answer(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))


def states(shop: Headrace, ids: list[str]) -> list[str]:
    return [info.state.value if (info := shop.jobs.get(id)) else "gone" for id in ids]


def test_the_newest_are_listed_first(headrace: Command, fail: Fail) -> None:
    ids = fail(3)
    result = headrace("failed", "list")
    assert result.code == 0
    assert result.lines[0].split() == ["ID", "QUEUE", "TASK", "AGO", "ATTEMPTS", "REASON", "ERROR"]
    assert {line.split()[0] for line in result.lines[1:]} == set(ids)
    assert result.lines[1].split()[-3:] == ["SMTPError:", "no", "answer"]


def test_pages_follow_each_other(headrace: Command, fail: Fail) -> None:
    ids = fail(5)
    first = headrace("failed", "list", "--limit", "3", "--json")
    cursor = first.err.strip().rpartition(" ")[2]
    second = headrace("failed", "list", "--limit", "3", "--json", "--cursor", cursor)
    assert {json.loads(line)["id"] for line in [*first.lines, *second.lines]} == set(ids)
    assert (len(first.lines), len(second.lines), second.err) == (3, 2, "")


def test_filters_narrow_the_list(headrace: Command, fail: Fail) -> None:
    fail(2)
    (other,) = fail(1, reason="timeout", task="anything", a=1)
    for filtered in (["--reason", "timeout"], ["--task", "anything"], ["--queue", "default"]):
        assert [json.loads(line)["id"] for line in headrace("failed", "list", "--json", *filtered).lines] == [other]
    nothing = headrace("failed", "list", "--task", "nothing")
    said = "no failed jobs match: did you mean --task anything?\n"
    assert (nothing.code, nothing.out, nothing.err) == (0, "", said)
    assert (
        headrace("failed", "list", "--task", "mail", "--queue", "x").err
        == "no failed jobs match: there is no queue 'x'\n"
    )
    assert headrace("job", "list", "--task", "mial").err == "no unfinished jobs match: did you mean --task mail?\n"
    assert headrace("job", "list", "--task", "zzz").err == "no unfinished jobs match: the app has no task 'zzz'\n"


def test_options_may_stand_after_the_group_too(
    headrace: Command, shop: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, spec = shop.tasks["mail"].enqueue(order_id=17), os.environ["HEADRACE_APP"]
    monkeypatch.delenv("HEADRACE_APP")
    for line in (("--app", spec, "job", "list"), ("job", "--app", spec, "list"), ("job", "list", "--app", spec)):
        result = headrace(*line, "--json")
        assert (result.code, json.loads(result.out)["id"]) == (0, job.id)
    for group in ("failed", "queue", "worker"):
        assert headrace(group, "--app", spec, "list").code == 0


def test_retry_by_id(shop: Headrace, headrace: Command, fail: Fail) -> None:
    ids = fail(3)
    result = headrace("failed", "retry", ids[0], ids[1])
    assert (result.code, result.out) == (0, "2 failed jobs made ready again\n")
    assert states(shop, ids) == ["ready", "ready", "failed"]


def test_retry_says_what_it_skipped(shop: Headrace, headrace: Command, fail: Fail) -> None:
    """B135: retrying twice makes no copies."""
    ids = fail(2)
    headrace("failed", "retry", ids[0])
    again = headrace("failed", "retry", *ids, "nobody")
    assert (again.code, again.out) == (1, "1 failed job made ready again, 2 skipped\n")
    assert f"skipped {ids[0]}: is ready" in again.err
    assert "skipped nobody: absent" in again.err
    assert headrace("failed", "retry", "nobody", "nothing").code == 4
    assert [queue.ready for queue in shop.jobs.queues()] == [2]


def test_a_taken_unique_key_skips(headrace: Command, fail: Fail, shop: Headrace) -> None:
    day = {"day": datetime(2030, 1, 1, tzinfo=UTC)}
    (old,) = fail(1, task="report", **day)
    new = shop.tasks["report"].enqueue(**day)
    result = headrace("failed", "retry", old, "--json")
    assert (result.code, json.loads(result.out)) == (1, {"retried": 0, "skipped": {old: f"duplicate of {new.id}"}})


def test_ids_come_from_a_pipe(shop: Headrace, headrace: Command, fail: Fail, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = fail(2)
    answer(monkeypatch, f"{ids[0]}\n\n {ids[1]} \n{ids[0]}\n")
    assert headrace("failed", "retry", "-").out == "2 failed jobs made ready again\n"
    assert states(shop, ids) == ["ready", "ready"]


def test_retry_by_filter_asks_first(
    shop: Headrace, headrace: Command, fail: Fail, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [*fail(2), *fail(1, reason="timeout")]
    answer(monkeypatch, "n\n")
    refused = headrace("failed", "retry", "--reason", "timeout")
    assert (refused.code, refused.out) == (1, "")
    assert "retry 1 failed job of reason timeout?" in refused.err
    assert "nothing was changed" in refused.err
    answer(monkeypatch, "y\n")
    assert headrace("failed", "retry", "--reason", "timeout").out == "1 failed job made ready again\n"
    assert states(shop, ids) == ["failed", "failed", "ready"]
    assert headrace("failed", "retry", "--all", "--yes").out == "2 failed jobs made ready again\n"
    assert states(shop, ids) == ["ready"] * 3


def test_where_nobody_answers_yes_is_asked_for(
    shop: Headrace, headrace: Command, fail: Fail, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = fail(1)
    answer(monkeypatch, "")
    for command in ("retry", "forget"):
        result = headrace("failed", command, "--all")
        assert result.code == 2
        assert "give --yes" in result.err
    assert states(shop, ids) == ["failed"]


@pytest.mark.parametrize("command", ["retry", "forget"])
def test_a_dry_run_changes_nothing(shop: Headrace, headrace: Command, fail: Fail, command: str) -> None:
    ids = fail(12)
    result = headrace("failed", command, "--all", "--dry-run")
    assert (result.code, result.lines[0], result.lines[-1]) == (0, f"would {command} 12 failed jobs", "  and 2 more")
    assert json.loads(headrace("failed", command, ids[0], "--dry-run", "--json").out) == {"dry_run": True, command: 1}
    assert states(shop, ids) == ["failed"] * 12


@pytest.mark.parametrize("command", ["retry", "forget"])
def test_a_selection_is_ids_or_filters(headrace: Command, command: str) -> None:
    both = headrace("failed", command, "x", "--all")
    assert (both.code, "ids, or filters, not both" in both.err) == (2, True)
    neither = headrace("failed", command)
    assert (neither.code, "say which" in neither.err) == (2, True)


def test_nothing_to_do_is_no_error(headrace: Command) -> None:
    assert headrace("failed", "retry", "--all").out == "0 failed jobs retried\n"
    assert headrace("failed", "forget", "--all", "--yes").out == "0 failed jobs forgotten\n"


def test_forget_deletes(shop: Headrace, headrace: Command, fail: Fail, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = fail(4)
    answer(monkeypatch, "n\n")
    assert headrace("failed", "forget", ids[0]).code == 1
    assert headrace("failed", "forget", ids[0], "--yes").out == "1 failed job forgotten\n"
    part = headrace("failed", "forget", ids[0], ids[1], "--yes")
    assert (part.code, part.err) == (1, "1 of the ids is not there\n")
    assert headrace("failed", "forget", ids[0], "--yes").code == 4
    assert json.loads(headrace("failed", "forget", "--task", "mail", "--yes", "--json").out) == {"forgotten": 2}
    assert states(shop, ids) == ["gone"] * 4


def test_forget_says_what_it_was(shop: Headrace, headrace: Command, fail: Fail) -> None:
    """An id may name a job that succeeded and is kept, or one that has not ended."""
    (failed,) = fail()
    kept, waiting = shop.tasks["mail"].enqueue(order_id=1), shop.tasks["anything"].enqueue(a=1)
    (claimed,) = shop.driver.run(ops.Claim("w2", 1, ("mail",), 1, 30_000_000)).jobs
    done = ops.Outcome(kept.id, "mail", claimed.token, State.SUCCEEDED, keep_us=60_000_000)
    assert shop.driver.run(ops.Settle("w2", (done,))) == [True]
    dry = headrace("failed", "forget", kept.id, waiting.id, "--dry-run")
    assert dry.lines == ["would forget 1 job", f"  {kept.id}  mail  succeeded"]
    part = headrace("failed", "forget", kept.id, waiting.id, "--yes")
    assert (part.code, part.out) == (1, "1 succeeded job forgotten\n")
    assert part.err.startswith(f"job {waiting.id} is ready: only jobs that have ended can be forgotten")
    assert headrace("failed", "forget", failed, "--yes").out == "1 failed job forgotten\n"
    refused = headrace("failed", "forget", waiting.id, "--yes")
    assert (refused.code, refused.out) == (1, "0 jobs forgotten\n")
    assert states(shop, [kept.id, failed, waiting.id]) == ["gone", "gone", "ready"]


def test_prune_by_number_and_age(shop: Headrace, headrace: Command, fail: Fail) -> None:
    """B025: failed jobs do not fill the store for ever."""
    ids = fail(5)
    assert headrace("failed", "prune").code == 2
    assert headrace("failed", "prune", "--older-than", "1h", "--yes").out == "0 failed jobs pruned\n"
    assert headrace("failed", "prune", "--most", "3", "--dry-run").lines[0] == "would prune 2 failed jobs"
    assert headrace("failed", "prune", "--most", "3", "--yes").out == "2 failed jobs pruned\n"
    assert states(shop, ids).count("gone") == 2
    assert json.loads(headrace("failed", "prune", "--older-than", "0s", "--yes", "--json").out) == {"pruned": 3}


@pytest.mark.parametrize("value", ["soon", "-1", "1y", "inf", "nan", ""])
def test_a_wrong_duration_is_explained(headrace: Command, value: str) -> None:
    result = headrace("failed", "prune", f"--older-than={value}")
    assert result.code == 2
    assert "write seconds or a text such as 90s, 5m, 1h30m, 30d" in result.err
