"""Log lines: one record is one line, JSON that every reader takes, and nothing a record holds can break it."""

import json
import logging
import sys
from datetime import datetime
from typing import Any

import pytest

from headrace.cli.logs import JSONFormatter, TextFormatter


def record(message: str, *args: object, extra: dict[str, Any] | None = None, exc_info: Any = None) -> logging.LogRecord:
    logger = logging.getLogger("headrace.worker")
    return logger.makeRecord(logger.name, logging.WARNING, "f.py", 1, message, args, exc_info, extra=extra)


CONTEXT = {"job_id": "0192-1", "task": "shop.mail", "queue": "mail", "attempt": 2, "worker": "w1"}


class Unshowable:
    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


def test_json_has_the_context_of_the_job() -> None:
    line = json.loads(JSONFormatter().format(record("job %s failed", "x", extra={**CONTEXT, "order_id": 17})))
    assert datetime.fromisoformat(line.pop("time")).tzinfo is not None
    assert line == {
        "level": "warning",
        "logger": "headrace.worker",
        "message": "job x failed",
        **CONTEXT,
        "order_id": 17,
    }


def test_fields_may_come_nested() -> None:
    line = json.loads(JSONFormatter().format(record("hello", extra={"headrace": {"job_id": "j", "size": 3}})))
    assert (line["job_id"], line["size"]) == ("j", 3)
    assert "headrace" not in line


def test_an_extra_never_replaces_what_the_line_says() -> None:
    line = json.loads(JSONFormatter().format(record("hello", extra={"headrace": {"level": "fine", "time": "never"}})))
    assert line["level"] == "warning"
    assert line["time"] != "never"


@pytest.mark.parametrize(
    "value",
    ["\ud800", "\x1b[0m\n", b"\xff", 2**70, float("nan"), {1, 2}, {("a", 1): object()}, Unshowable(), [[[[[[1]]]]]]],
    ids=["surrogate", "escape", "bytes", "large", "nan", "set", "mapping", "unshowable", "deep"],
)
def test_no_value_breaks_a_line(value: object) -> None:
    """B094, B088: whatever comes with `extra` ends up as text at worst."""
    for formatter in (JSONFormatter(), TextFormatter()):
        line = formatter.format(record("hello", extra={"value": value}))
        assert "\n" not in line
        assert "\x1b" not in line
        line.encode("utf-8")
    assert "value" in json.loads(JSONFormatter().format(record("hello", extra={"value": value})))


def test_arguments_that_do_not_fit_are_told_not_raised() -> None:
    line = json.loads(JSONFormatter().format(record("%d jobs", "many")))
    assert line["message"].startswith("%d jobs [")


def test_the_traceback_is_in_the_line() -> None:
    try:
        raise ValueError("broken \x1b[31m")
    except ValueError:
        caught = record("failed", exc_info=sys.exc_info())
    as_json = JSONFormatter().format(caught)
    assert "\n" not in as_json
    assert "ValueError: broken" in json.loads(as_json)["traceback"]
    caught.exc_text = None
    text = TextFormatter().format(caught).splitlines()
    assert text[1].startswith("Traceback")
    assert text[-1] == "ValueError: broken \\x1b[31m"


def test_text_shows_the_context_behind_the_message() -> None:
    line = TextFormatter().format(record("job 0192-1: failed", extra={**CONTEXT, "why": "no room"}))
    assert line.endswith('job 0192-1: failed task=shop.mail queue=mail attempt=2 worker=w1 why="no room"')


def test_arguments_stand_beside_the_context() -> None:
    given = {"job_id": "j", "arguments": {"order_id": 17}}
    assert TextFormatter().format(record("done", extra=given)).endswith(": done job_id=j order_id=17")
    assert json.loads(JSONFormatter().format(record("done", extra=given)))["arguments"] == {"order_id": 17}


def test_a_forged_line_break_stays_in_its_line() -> None:
    """B094: a job's text cannot write log lines of its own."""
    line = TextFormatter().format(record("hello %s", "x\n2026-01-01 INFO all is well"))
    assert line.count("\n") == 0
    assert "x\\n2026" in line
