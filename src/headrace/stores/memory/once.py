"""Once records of the model."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from headrace.core import once_records as records
from headrace.core.operations import OnceEnd


class Record(msgspec.Struct):
    """One record."""

    fingerprint: bytes
    state: str
    owner: str
    token: int
    lease_until_us: int
    fence: int
    until_us: int
    result: bytes | None = None


class Records:
    """All records, by (scope, key). `is_running` tells whether a job runs under a token."""

    def __init__(self, is_running: Callable[[str, int], bool]) -> None:
        self._records: dict[tuple[str, str], Record] = {}
        self._is_running = is_running

    def take(self, claim: records.OnceClaim, now: int) -> records.OnceTaken:
        """Take one, unless somebody has it or has had it."""
        record = self._records.get((claim.scope, claim.key))
        if record is not None and not self._is_free(record, now):
            if record.fingerprint != claim.fingerprint:
                return records.OnceTaken("other", record.fence)
            if record.state != "held":
                return records.OnceTaken(record.state, record.fence, record.result)  # type: ignore[arg-type]
            if (record.owner, record.token) != (claim.owner, claim.token):
                lease_us = 0 if record.token else record.lease_until_us - now
                return records.OnceTaken("held", record.fence, lease_us=lease_us)
            fence = record.fence  # our own, whose answer was lost
        else:
            fence = now if record is None else max(record.fence + 1, now)
        self._records[claim.scope, claim.key] = Record(
            claim.fingerprint,
            "held",
            claim.owner,
            claim.token,
            0 if claim.token else now + claim.lease_us,
            fence,
            now + records.HELD_KEEP_US,
        )
        return records.OnceTaken("mine", fence)

    def _is_free(self, record: Record, now: int) -> bool:
        if record.state == "held":
            if record.token:
                return not self._is_running(record.owner, record.token)
            return record.lease_until_us <= now
        return record.state == "free" or record.until_us <= now

    def renew(self, op: records.RenewOnce, now: int) -> bool:
        """Extend a lease."""
        record = self._records.get((op.scope, op.key))
        if record is None or record.state != "held" or record.token or record.owner != op.owner:
            return False
        record.lease_until_us = now + op.lease_us
        record.until_us = now + records.HELD_KEEP_US
        return True

    def holds(self, end: OnceEnd, owner: str, token: int) -> bool:
        """Whether this holder may end it."""
        record = self._records.get((end.scope, end.key))
        mine = record is not None and (record.owner, record.token, record.fence) == (owner, token, end.fence)
        return mine and record is not None and record.state in ("held", end.state)

    def end(self, end: OnceEnd, owner: str, token: int, now: int) -> bool:
        """Store what came of it."""
        if not self.holds(end, owner, token):
            return False
        record = self._records[end.scope, end.key]
        if record.state != end.state:
            keep_us = records.FREE_KEEP_US if end.state == "free" else end.keep_us
            record.state, record.result, record.until_us = end.state, end.result, now + keep_us
        return True

    def look(self, op: records.LookOnce) -> records.OnceView | None:
        """One as it stands."""
        record = self._records.get((op.scope, op.key))
        if record is None:
            return None
        lease = None if record.token or record.state != "held" else record.lease_until_us
        return records.OnceView(
            record.state,  # type: ignore[arg-type]
            record.owner,
            record.token,
            record.fence,
            record.until_us,
            lease,
            record.result,
        )

    def prune(self, limit: int, now: int) -> bool:
        """Forget those whose time is over, at most `limit`; whether some are left."""
        over = [key for key, record in self._records.items() if record.until_us <= now]
        for key in over[:limit]:
            del self._records[key]
        return len(over) > limit
