"""Reading the price lists of suppliers."""

from __future__ import annotations

import os
import signal

CORRUPT = 13  # the one list that no parser survives


def parse(list_id: int) -> int:
    """Return the number of prices. The parser is a C library, and a corrupt list brings down its whole process."""
    if list_id == CORRUPT:
        os.kill(os.getpid(), signal.SIGKILL)
    return 100
