"""Operations around transactions of the caller's."""

from __future__ import annotations

import msgspec

from headrace.core.operations import Operation


class Installation(msgspec.Struct, Operation["str | None"], frozen=True):
    """The id that was made together with our tables; None where there are none. No statement of it can fail."""

    writes = False
