"""Log lines of `headrace work`: text for humans, JSON for machines, both with the job's id, task, queue and attempt."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from headrace.cli.output import printable
from headrace.joblog import JobLogFilter

LogFormat = Literal["text", "json"]

CONTEXT = ("job_id", "task", "queue", "attempt", "worker")

# What every record has by itself. Anything else came with `extra=` and belongs into the line.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def extras(record: logging.LogRecord) -> dict[str, Any]:
    """What was given with `extra=`, the job's context first; a mapping under `headrace` is spread out."""
    given = {name: value for name, value in vars(record).items() if name not in _STANDARD}
    nested = given.pop("headrace", None)
    if isinstance(nested, Mapping):
        given |= {str(name): value for name, value in nested.items()}
    elif nested is not None:
        given["headrace"] = nested
    return {name: given[name] for name in CONTEXT if name in given} | {
        name: value for name, value in given.items() if name not in CONTEXT
    }


def when(record: logging.LogRecord) -> str:
    """The record's time as ISO-8601 in UTC, to the millisecond."""
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


class JSONFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, the job's context, other extras, traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """The line. Never raises: a log line that cannot be written must not cost a job."""
        fields: dict[str, Any] = {
            "time": when(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        fields |= {name: value for name, value in extras(record).items() if name not in fields}
        if traceback := _traceback(self, record):
            fields["traceback"] = traceback
        if record.stack_info:
            fields["stack"] = record.stack_info
        return msgspec.json.encode(_safe(fields)).decode("utf-8")


class TextFormatter(logging.Formatter):
    """`time LEVEL logger: message key=value ...`; control characters are escaped, so one record is one line (B094)."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, and the traceback below it."""
        message = _message(record)
        fields = extras(record)
        if isinstance(fields.get("arguments"), Mapping):
            fields |= fields.pop("arguments")
        given = {str(name): _text(value) for name, value in fields.items()}
        if given.get("job_id", "") in message:
            given.pop("job_id", None)
        pairs = "".join(f" {name}={_quoted(value)}" for name, value in given.items())
        line = printable(f"{when(record)} {record.levelname:<7} {record.name}: {message}") + printable(pairs)
        if traceback := _traceback(self, record):
            line += "\n" + printable(traceback, lines=True)
        return line


def set_up(log_format: LogFormat, *, verbose: bool) -> None:
    """Send all logging of this process to standard error in `log_format`; `verbose` adds headrace's debug lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JSONFormatter() if log_format == "json" else TextFormatter())
    handler.addFilter(JobLogFilter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    logging.getLogger("headrace").setLevel(logging.DEBUG if verbose else logging.INFO)
    logging.captureWarnings(capture=True)


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    """Of an exception, or of a job's error, which is text already."""
    return formatter.formatException(record.exc_info) if record.exc_info else record.exc_text or ""


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception as error:  # noqa: BLE001 - arguments that do not fit or cannot be shown: say so in the line
        return f"{record.msg} [the arguments of this line cannot be shown: {type(error).__name__}]"


def _quoted(value: str) -> str:
    return f'"{value}"' if not value or " " in value else value


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception as error:  # noqa: BLE001 - the value's own __str__ may raise anything
        return f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"


def _safe(value: Any, depth: int = 4) -> Any:
    """`value` as something that is sure to become JSON: valid text, plain containers, text for all else."""
    match value:
        case None | bool():
            return value
        case float():
            return float(value)
        case int():
            return int(value) if -(2**63) <= value < 2**64 else str(int(value))
        case Mapping() if depth:
            return {_valid(_text(name)): _safe(inner, depth - 1) for name, inner in value.items()}
        case list() | tuple() | set() | frozenset() if depth:
            return [_safe(inner, depth - 1) for inner in value]
    return _valid(_text(value))


def _valid(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
