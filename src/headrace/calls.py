"""What goes with a call of a task on its way into the store, and what comes back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from headrace.core.moments import Moment
from headrace.errors import InvalidArguments, StoreUnavailable


class Job(msgspec.Struct, frozen=True):
    """What an enqueue answers.

    `status`: "new", or "duplicate" (another job holds the unique key), or "exists" (this `id=` was enqueued before).
    """

    id: str  # of the job that exists already, if there is one
    status: Literal["new", "exists", "duplicate"] = "new"
    pending: bool = False  # not in the store before the commit: in an outbox, or with after_commit in memory

    @property
    def duplicate(self) -> bool:
        """True when nothing was enqueued because the job exists already."""
        return self.status != "new"


class Sending(msgspec.Struct, frozen=True):
    """What `using` sets for single jobs."""

    id: str | None = None
    run_after: Moment = Moment(in_us=0)
    timeout_us: int | None = None
    tenant: str | None = None
    tags: tuple[str, ...] = ()
    headers: Mapping[str, str] = {}
    transaction: Any = None
    after_commit: bool = False


def split(arguments: Mapping[str, Any] | tuple[Any, ...]) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """One call of `enqueue_many` as positional and named arguments.

    Raises:
        InvalidArguments: it is neither a mapping nor a tuple.
    """
    if isinstance(arguments, dict):
        return (), arguments
    if isinstance(arguments, tuple):
        return arguments, {}
    if isinstance(arguments, Mapping):
        return (), dict(arguments)
    raise InvalidArguments(f"it is {arguments!r:.80}: pass a dict of argument names, or a tuple such as (17,)")


def note_stored(error: Exception, jobs: list[Job]) -> None:
    """Say on the error of a call with many jobs how many of them are stored."""
    if jobs:
        # only where a chunk was sent and its answer is missing; bad arguments are found before
        rest = "the rest is not known to be" if isinstance(error, StoreUnavailable) else "the rest is not"
        error.add_note(f"The first {len(jobs):,} jobs of this call are stored, {rest}.")
