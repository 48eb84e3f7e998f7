"""Replays of many failed jobs: each is a register that tells what is meant, how far it has come, and who is at it.

A replay makes ready again what failed before it was started, and nothing that has failed since: so two of them, or one
that is driven by two, replay each job once (B135). Whoever drives it holds a lease, so that anybody may go on with one
whose driver has died.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec.structs import replace

from headrace.core.failures import FailedFilter
from headrace.core.registers import Change, Changed

REGISTERS = "replay:"
KEEP_US = 30 * 24 * 3600 * 1_000_000  # a replay can be looked at for so long
LEASE_US = 30_000_000
IDS = 1_000  # that one replay may name
SKIPS = 20  # skipped jobs that are told of with their reasons

Phase = Literal["canaries", "running", "done", "cancelled", "stopped"]
ENDED: frozenset[Phase] = frozenset({"done", "cancelled", "stopped"})


class Canary(msgspec.Struct, frozen=True):
    """A job that is replayed before the others. `queue`: a hint where it is."""

    id: str
    queue: str | None = None


class ReplayRun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One replay. `phase`: "canaries" are being waited for, "running", or how it ended: "stopped" by a canary.

    `replayed` and `skipped` count jobs of all `total` (None: not counted yet); a skipped one was not failed any more,
    has failed again since, or another job holds its unique key. Counts are written after the jobs: those of a driver
    that died may be behind. `driver`: who is at it, until `lease_until_us`.
    """

    id: str
    where: FailedFilter = FailedFilter()
    ids: tuple[str, ...] | None = None  # in place of `where`
    started_us: int = 0
    by: str = ""
    rate: float | None = None  # jobs per second
    canary: int = 0
    phase: Phase = "running"
    why: str = ""
    ended_us: int | None = None
    total: int | None = None
    replayed: int = 0
    skipped: int = 0
    skips: dict[str, str] = {}
    canaries: tuple[Canary, ...] | None = None
    driver: str = ""
    lease_until_us: int = 0

    @property
    def ended(self) -> bool:
        """Whether there is nothing left to do."""
        return self.phase in ENDED


class Standing(msgspec.Struct, frozen=True):
    """How a replay stands; None where there is none, or it cannot be read."""

    run: ReplayRun | None
    now_us: int


_encoder = msgspec.json.Encoder()
# A filter of a newer version that is read without what it adds would mean more jobs: that one is not touched.
_decoder = msgspec.json.Decoder(ReplayRun)


def decode(body: bytes | None) -> ReplayRun | None:
    """The replay in a register."""
    try:
        return None if body is None else _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


class _ReplayChange(Change, frozen=True, kw_only=True):
    """Base of the changes of a replay. The answer is a `Standing`."""

    def apply(self, body: bytes | None, now_us: int) -> Changed:
        """One that is there changes unless it has ended."""
        run = decode(body)
        if run is None and body is not None:  # of a newer version, most likely
            return Changed(body, Standing(None, now_us), KEEP_US)
        after = self.begun(run, now_us) if run is None or run.ended else self.changed(run, now_us)
        if after is None or after == run:
            return Changed(body, Standing(run, now_us), KEEP_US)
        return Changed(_encoder.encode(after), Standing(after, now_us), KEEP_US)

    def begun(self, run: ReplayRun | None, now_us: int) -> ReplayRun | None:
        """Where there is none, or it has ended."""
        return run

    def changed(self, run: ReplayRun, now_us: int) -> ReplayRun:
        """Where it goes on."""
        return run


class StartReplay(_ReplayChange, frozen=True, kw_only=True):
    """Note a new one, as of now. Started again, it stays as it is."""

    run: ReplayRun

    def begun(self, run: ReplayRun | None, now_us: int) -> ReplayRun:
        """With the moment that tells which failures are meant."""
        phase: Phase = "canaries" if self.run.canary else "running"
        return replace(self.run, started_us=now_us, phase=phase) if run is None else run


class TakeReplay(_ReplayChange, frozen=True, kw_only=True):
    """Drive it from here on, if nobody else does."""

    driver: str
    lease_us: int = LEASE_US

    def changed(self, run: ReplayRun, now_us: int) -> ReplayRun:
        """Counts of what was passed over begin anew, as its driver does, except where it counts ids."""
        # a lease that is longer than any is of a clock that was set back since
        if run.driver not in ("", self.driver) and 0 < run.lease_until_us - now_us <= self.lease_us:
            return run
        run = replace(run, driver=self.driver, lease_until_us=now_us + self.lease_us)
        return run if run.ids is not None else replace(run, skipped=0, skips={})


class StepReplay(_ReplayChange, frozen=True, kw_only=True):
    """How far its driver has come, who holds it for as long again. Somebody else's step changes nothing."""

    driver: str
    phase: Phase
    why: str = ""
    total: int | None = None
    replayed: int = 0
    skipped: int = 0
    skips: Mapping[str, str]
    canaries: tuple[Canary, ...] | None = None
    lease_us: int = LEASE_US

    def changed(self, run: ReplayRun, now_us: int) -> ReplayRun:
        """All counts are those of the whole replay, so that a step that is heard twice is as good as one."""
        if run.driver != self.driver:
            return run
        over = self.phase in ENDED
        return replace(
            run,
            phase=self.phase,
            why=self.why,
            total=self.total,
            replayed=self.replayed,
            skipped=self.skipped,
            skips=dict(list(self.skips.items())[:SKIPS]),
            canaries=self.canaries,
            ended_us=now_us if over else None,
            driver="" if over else run.driver,
            lease_until_us=0 if over else now_us + self.lease_us,
        )


class LeaveReplay(_ReplayChange, frozen=True, kw_only=True):
    """Its driver goes: somebody else may go on at once."""

    driver: str

    def changed(self, run: ReplayRun, now_us: int) -> ReplayRun:
        """Unless somebody else has taken it."""
        return replace(run, driver="", lease_until_us=0) if run.driver == self.driver else run


class CancelReplay(_ReplayChange, frozen=True, kw_only=True):
    """End it where it is, whoever drives it. What has been replayed stays so."""

    by: str

    def changed(self, run: ReplayRun, now_us: int) -> ReplayRun:
        """Its driver sees it at its next step."""
        why = f"cancelled by {self.by}" if self.by else "cancelled"
        return replace(run, phase="cancelled", why=why, ended_us=now_us, driver="", lease_until_us=0)


class AskTime(Change, frozen=True, kw_only=True):
    """Changes nothing. The answer is the store's now, in microseconds since the epoch."""

    register: str = "time"

    def apply(self, body: bytes | None, now_us: int) -> Changed:
        """Nothing is written."""
        return Changed(body, now_us)
