"""A plan: a generator that yields steps, receives what each returned, and returns the operation's answer.

A store writes plans, a driver runs them (`drivers/run.py`). An error of a step is thrown into the plan at its
yield, so that a plan may answer it with another step or let it pass.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

import msgspec

R = TypeVar("R")


class Statement(msgspec.Struct, frozen=True, gc=False):
    """One SQL statement by the name of its file's entry, with its parameters; `many` binds a list of rows."""

    sql: str
    params: dict[str, Any] | None = None
    many: list[dict[str, Any]] | list[tuple[Any, ...]] | None = None


class Call(msgspec.Struct, frozen=True, gc=False):
    """One script (Redis) or one function (memory) by name, with its keys and arguments."""

    script: str
    keys: tuple[str, ...] = ()
    args: tuple[Any, ...] = ()


Step = Statement | Call
Plan = Generator[Step, Any, R]
