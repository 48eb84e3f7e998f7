"""Parked jobs: held back unharmed until what they wait for is there again, such as a circuit that has closed.

A settle to `parked` puts a job aside under its reason, which says what it waits for; claims pass it by. Whoever finds
that the wait is over gives parked jobs back, as many at a time as whatever they waited for can bear.
"""

from __future__ import annotations

import msgspec

from headrace.core.operations import Operation

REASON = 200  # characters of such a reason at most


class Unpark(msgspec.Struct, Operation[int], frozen=True):
    """Make parked jobs of a reason ready in their old places: in each queue those that are first in line.

    At most `limit` of them, queue by queue in the given order. Answers how many there were.
    """

    queues: tuple[str, ...]
    reason: str
    limit: int


class ParkedFor(msgspec.Struct, frozen=True, order=True):
    """Jobs of `queue` are parked for this reason. `jobs`: how many, None where they have not been counted."""

    queue: str
    reason: str
    jobs: int | None = None


class LookParked(msgspec.Struct, Operation["list[ParkedFor]"], frozen=True):
    """Why jobs of these queues are parked: each queue and reason once, sorted. Costs nothing per job.

    `counting`: also how many there are for each, without a list of them. On SQL databases that is a step along an index
    for each job. While a version that knows nothing of reasons works on the same store, the numbers may be off by jobs
    that it has parked or cancelled.
    """

    writes = False
    queues: tuple[str, ...]
    counting: bool = False
