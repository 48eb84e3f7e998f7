"""Whether a connection that lies idle is as we left it."""

from __future__ import annotations

import select
from typing import Any


def is_silent(socket: Any) -> bool:
    """Whether nothing has come that nobody asked for: a goodbye, most likely. Windows has no `poll`.

    `select` knows no descriptor above 1023, so it comes second.
    """
    if not hasattr(select, "poll"):
        return not select.select([socket], [], [], 0)[0]
    poll = select.poll()
    poll.register(socket, select.POLLIN)
    return not poll.poll(0)
