"""`headrace work --twice`: each handler runs twice, so that one that must not shows it before it matters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from headrace.worker.table import Work


def twice(run: Callable[[], Awaitable[Any]], work: Work) -> Callable[[], Awaitable[Any]]:
    """`run`, two times in a row, unless the first one has ended the job itself."""

    async def both() -> Any:
        value = await run()
        return value if work.completing else await run()

    return both
