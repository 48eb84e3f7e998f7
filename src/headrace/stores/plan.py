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
    """One SQL statement by the name of its file's entry, with its parameters; `many` binds a list of rows.

    `alone`: complete in itself. A driver may run it without a transaction unless one is open already, which spares
    the round trips that begin and end one; any other statement opens one that lasts until the end of the plan.

    `mute`: the plan makes nothing of its answer. A driver may keep it back and send it together with the next one, or
    with the commit, which spares a round trip; what is wrong with it comes to light there.
    """

    sql: str
    params: dict[str, Any] | None = None
    many: list[dict[str, Any]] | list[tuple[Any, ...]] | None = None
    alone: bool = False
    mute: bool = False


class Call(msgspec.Struct, frozen=True, gc=False):
    """One script (Redis) or one function (memory) by name, with its keys and arguments."""

    script: str
    keys: tuple[str, ...] = ()
    args: tuple[Any, ...] = ()


class Load(msgspec.Struct, frozen=True, gc=False):
    """Many new rows for one table by the quickest way there is (`copy`), the statement by its name.

    `groups` are rows that follow each other and have the same values in all columns but the last two: those values, and
    the last two of each row. `types` are the columns', in their order. The answer is True; it is False where one of the
    rows is there already, and then none of them is stored while the transaction goes on.
    """

    sql: str
    types: tuple[str, ...]
    groups: list[tuple[tuple[Any, ...], list[tuple[Any, Any]]]]


Step = Statement | Call | Load
Plan = Generator[Step, Any, R]
