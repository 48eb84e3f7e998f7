"""Log records of a child, which the worker writes: to its own places, in its own format, one after the other."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable

import msgspec

from headrace.context import JobContext, enter
from headrace.core.trail import TEXT, TRACEBACK, clean
from headrace.worker.children.messages import Line


class Lines(logging.Handler):
    """In a child. Logging that an application sets up itself, in the module of its tasks, takes its place."""

    def __init__(self, send: Callable[[msgspec.Struct], None]) -> None:
        super().__init__()
        self._send = send

    def install(self, level: int) -> None:
        """For all that is logged from `level` on."""
        root = logging.getLogger()
        root.addHandler(self)
        root.setLevel(level)

    def emit(self, record: logging.LogRecord) -> None:
        """Send it."""
        try:
            trace = ""
            if record.exc_info:
                trace = logging.Formatter().formatException(record.exc_info)
            self._send(
                Line(
                    record.name,
                    record.levelno,
                    clean(record.getMessage(), TEXT),
                    clean(record.pathname, TEXT),
                    record.lineno,
                    record.funcName or "",
                    clean(trace, TRACEBACK, keep_end=True),
                )
            )
        except Exception:  # noqa: BLE001 - as every handler of the standard library does
            self.handleError(record)


def write(line: Line, context: JobContext | None) -> None:
    """In the worker: hand a child's record to whoever listens. To be called in a context of its own. Never raises."""
    logger = logging.getLogger(line.name)
    if not logger.isEnabledFor(line.level):
        return
    enter(context)  # for filters that ask for the current job
    try:
        record = logger.makeRecord(line.name, line.level, line.path, line.line, line.text, (), None, line.function)
        record.exc_text = line.traceback or None
        logger.handle(record)
    except Exception as error:  # noqa: BLE001 - filters and record factories are the application's; answers must be heard
        sys.stderr.write(f"headrace: a log line of a child process could not be written: {error!r}\n")
