"""Operations around transactions of the caller's."""

from __future__ import annotations

from typing import Literal

import msgspec

from headrace.core.operations import Operation


class Installation(msgspec.Struct, Operation["str | None"], frozen=True):
    """The id that was made together with our tables; None where there are none. No statement of it can fail."""

    writes = False


Committed = Literal["yes", "no", "open"]


class Completed(msgspec.Struct, Operation[Committed], frozen=True):
    """Whether the transaction in which a handler has completed its job, under this token, has been committed.

    "open": it is still under way, or something else holds the job's row for a moment; it was not waited for. SQLite,
    whose writers wait for each other, never answers that.
    """

    id: str
    token: int
