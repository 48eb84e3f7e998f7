"""Exceptions as plain text: type, message, traceback. Errors travel as data, never as objects (B088)."""

from __future__ import annotations

import traceback
from types import TracebackType
from typing import NamedTuple

from headrace.core.trail import TEXT, TRACEBACK, clean

FRAMES = 30  # kept of one traceback, the innermost
OURS = __name__.partition(".")[0] + "."


class ErrorText(NamedTuple):
    """What is kept of an exception."""

    type: str
    message: str
    traceback: str


def describe(error: BaseException) -> ErrorText:
    """`error` as text of bounded size. Whatever its `__str__` does, there is an answer.

    The exception's traceback is dropped afterwards, so that the frames of the handler and what they hold can be
    collected (B114).
    """
    message = as_text(error)
    try:
        text = _format(error)
    except BaseException as problem:  # noqa: BLE001 - RecursionError, MemoryError; exceptions with traps of their own
        text = f"<no traceback: formatting it raised {type(problem).__name__}>"
    drop_frames(error)
    return ErrorText(clean(type(error).__name__, 200), clean(message, TEXT), clean(text, TRACEBACK, keep_end=True))


def as_text(value: object) -> str:
    """`str(value)`, whatever its `__str__` does."""
    try:
        return str(value)
    except BaseException as problem:  # noqa: BLE001 - a broken __str__ must not hide that the job failed (B088)
        return f"<{type(value).__name__}.__str__ raised {type(problem).__name__}>"


def drop_frames(error: BaseException) -> None:
    """Take the tracebacks off `error` and all it was caused by."""
    for one in _linked(error):
        # not by assignment: an exception that is a frozen dataclass refuses that
        BaseException.with_traceback(one, None)


def _format(error: BaseException) -> str:
    frames = _frames_of_the_handler(error.__traceback__)
    parts = traceback.TracebackException(
        type(error), error, frames, limit=-FRAMES, max_group_width=5, max_group_depth=5, compact=True
    ).format()
    # each part is cut by itself: one message of 5 MB must not push the frames out (B101)
    return "".join(part if len(part) <= TEXT else clean(part, TEXT) + "\n" for part in parts)


def _frames_of_the_handler(frames: TracebackType | None) -> TracebackType | None:
    """Without the worker's own frames above it, which say nothing about the error."""
    first = frames
    while first is not None and str(first.tb_frame.f_globals.get("__name__")).startswith(OURS):
        first = first.tb_next
    return first or frames


def _linked(error: BaseException) -> list[BaseException]:
    """`error`, its causes and contexts and the members of groups, each once: chains may run in circles."""
    found: dict[int, BaseException] = {}
    todo: list[BaseException | None] = [error]
    while todo:
        one = todo.pop()
        if one is None or id(one) in found:
            continue
        found[id(one)] = one
        todo += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            todo += one.exceptions
    return list(found.values())
