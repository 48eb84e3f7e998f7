"""Exceptions as plain text: type, message, traceback. Errors travel as data, never as objects (B088)."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from headrace.core.trail import TEXT, TRACEBACK, clean


OURS = str(Path(__file__).parent.parent)


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
    name = type(error).__name__
    try:
        message = str(error)
    except Exception as problem:  # noqa: BLE001 - a broken __str__ must not hide that the job failed
        message = f"<{name}.__str__ raised {type(problem).__name__}>"
    try:
        frames = _frames_of_the_handler(error.__traceback__)
        lines = "".join(
            traceback.TracebackException(
                type(error), error, frames, limit=-30, max_group_width=5, compact=True
            ).format()
        )
    except Exception as problem:  # noqa: BLE001 - as above; also RecursionError, MemoryError
        lines = f"<no traceback: formatting it raised {type(problem).__name__}>"
    _drop_frames(error)
    return ErrorText(clean(name, 200), clean(message, TEXT), clean(lines, TRACEBACK, keep_end=True))


def _frames_of_the_handler(frames: TracebackType | None) -> TracebackType | None:
    """Without the worker's own frames above it, which say nothing about the error."""
    first = frames
    while first is not None and first.tb_frame.f_code.co_filename.startswith(OURS):
        first = first.tb_next
    return first or frames


def _drop_frames(error: BaseException) -> None:
    seen: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        one = todo.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        one.__traceback__ = None
        todo += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            todo += one.exceptions
