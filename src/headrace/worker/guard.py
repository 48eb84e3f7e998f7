"""A job's once key, and what becomes of the job by what the store said to it."""

from __future__ import annotations

import msgspec

from headrace.core import endings, once
from headrace.core.once_records import OnceClaim, OnceTaken
from headrace.core.operations import ClaimedJob, OnceEnd


class Guard(msgspec.Struct, frozen=True):
    """A job's once key, and what the store said to it. None: it has not answered, and the worker is ending."""

    scope: str
    key: str
    policy: once.Once
    fingerprint: bytes = b""
    taken: OnceTaken | None = None
    problem: str = ""  # why it can have no record

    @property
    def fence(self) -> int | None:
        """The fence, if this job may take effect."""
        return self.taken.fence if self.taken is not None and self.taken.status == "mine" else None

    def claim(self, job: ClaimedJob) -> OnceClaim:
        """What the job asks for."""
        return OnceClaim(self.scope, self.key, self.fingerprint, job.id, job.token, job.queue)

    def ending(self) -> endings.Ending | None:
        """How the job ends without being run. None: it is to take effect."""
        if self.taken is None:
            return endings.BadArguments(self.problem) if self.problem else endings.Released()
        match self.taken.status:
            case "done":
                return endings.DoneBefore()
            case "failed":
                return endings.FailedBefore(*once.decode_failure(self.taken.result))
            case "held":
                return endings.OnceKeyHeld()
            case "other":
                return endings.OnceKeyReused(self.key)
        return None

    def done(self, result: bytes | None) -> OnceEnd | None:
        """How the record ends with the job: it keeps the result."""
        if self.fence is None:
            return None
        return OnceEnd(self.scope, self.key, self.fence, "done", result, self.policy.lifetime_us)

    def failed(self, error: str, message: str) -> OnceEnd | None:
        """The same with a failure, where the task keeps those."""
        if self.fence is None or self.policy.failures == "free":
            return None
        result = msgspec.json.encode({"type": error, "message": message})
        return OnceEnd(self.scope, self.key, self.fence, "failed", result, self.policy.lifetime_us)
