"""Tasks that are held, since their jobs killed their workers too often under one version of the code.

Each conviction is counted under (task, version). Once enough different jobs were convicted within a while, workers of
that version park all jobs of the task. They run again under another version of the code, or when an operator says so.
What is known of a task is in one register, changed by what follows.
"""

from __future__ import annotations

from hashlib import blake2b

import msgspec
from msgspec.structs import replace

from headrace.core.parking import REASON
from headrace.core.registers import NAME, Change, Changed

SECOND = 1_000_000
REGISTERS = "hold:"  # before the name of each task
PACES = "holdpace:"
KEEP_US = 365 * 24 * 3600 * SECOND  # a hold that nobody has touched for so long is forgotten, and its jobs run
WITHIN_US = 3600 * SECOND
AFTER = 3  # different jobs, unless the app or the task says otherwise
MOST_JOBS = 100
MOST_VERSIONS = 20
RATE = 10.0  # parked jobs a second that are given back, of each task and version
BURST = 5


class Suspicion(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is known of a task under one version. `jobs`: id -> when it was convicted."""

    version: str
    jobs: dict[str, int] = {}
    held_us: int = 0  # since when; 0: it is not held
    held_by: str = ""  # the job that was one too many
    tried_by: str = ""  # who was the first to give its jobs to another version

    @property
    def held(self) -> bool:
        """Whether workers of this version park its jobs."""
        return self.held_us > 0


class Hold(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content of a task's register. `runs`: under which version a suspect ran last, by its id."""

    task: str
    versions: tuple[Suspicion, ...] = ()
    runs: dict[str, str] = {}
    freed_by: str = ""  # the last one who freed it, and what that was
    freed: tuple[str, ...] = ()

    def under(self, version: str) -> Suspicion:
        """What is known under a version."""
        return next((one for one in self.versions if one.version == version), Suspicion(version))

    def with_one(self, suspicion: Suspicion) -> Hold:
        """Put in the place of what was known under its version; of the others, the oldest are dropped."""
        others = tuple(one for one in self.versions if one.version != suspicion.version)
        return replace(self, versions=(*others, suspicion)[-MOST_VERSIONS:])


def register_of(task: str) -> str:
    """The name of a task's register."""
    return _short(f"{REGISTERS}{task}", NAME, REGISTERS)


def reason_of(task: str, version: str) -> str:
    """Why its jobs are parked."""
    return _short(f"held {task} {version}".rstrip(), REASON, "held ")


def is_reason(reason: str) -> bool:
    """Whether jobs with this reason are parked since their task is held."""
    return reason.startswith("held ")


def _short(text: str, most: int, start: str) -> str:
    encoded = text.encode()
    return text if len(encoded) <= most else start + blake2b(encoded, digest_size=20).hexdigest()


class HoldChange(Change, frozen=True, kw_only=True):
    """Base of the changes of a task's register."""

    task: str

    def known(self, body: bytes | None) -> Hold:
        """What the register says."""
        return decode(body) or Hold(self.task)


class NoteRun(HoldChange, frozen=True, kw_only=True):
    """A suspect is about to run alone under this version. Should that kill the worker, the others know what did it.

    Else the first worker of a new version that finds the body would be taken for the murderer. The answer: may it? It
    may not where the task is held.
    """

    version: str
    job: str

    def apply(self, body: bytes | None, now_us: int) -> Changed:
        """Of many, the newest are remembered."""
        hold = self.known(body)
        held = hold.under(self.version).held
        if held or hold.runs.get(self.job) == self.version:
            return Changed(body, not held, KEEP_US)
        runs = dict([*hold.runs.items(), (self.job, self.version)][-MOST_JOBS:])
        return Changed(_encoder.encode(replace(hold, runs=runs)), not held, KEEP_US)


class Convicted(msgspec.Struct, frozen=True):
    """How a task stands after a conviction: under which version it is counted, and how many there are.

    `new`: it is this one that has it held.
    """

    version: str
    crashes: int
    held: bool
    new: bool


class Convict(HoldChange, frozen=True, kw_only=True):
    """A job was convicted of killing its workers. The answer is `Convicted`.

    `after` different ones within `within_us` have the task held under the version that they ran under: as noted, and
    else the one that is given, as where it `ran` for certain. The same job again is no other one.
    """

    version: str
    job: str
    after: int
    ran: bool = False
    within_us: int = WITHIN_US

    def apply(self, body: bytes | None, now_us: int) -> Changed:
        """Count it."""
        hold = self.known(body)
        was = hold.under(self.version if self.ran else hold.runs.get(self.job, self.version))
        jobs = {id: at for id, at in was.jobs.items() if was.held or at > now_us - self.within_us}
        jobs.setdefault(self.job, now_us)
        if len(jobs) > MOST_JOBS:
            jobs = dict(list(jobs.items())[-MOST_JOBS:])
        now = replace(was, jobs=jobs)
        if not was.held and len(jobs) >= self.after:
            now = replace(now, held_us=max(1, now_us), held_by=self.job, tried_by="")
        after = body if now == was else _encoder.encode(hold.with_one(now))
        new = now.held and now.held_by == self.job
        return Changed(after, Convicted(now.version, len(jobs), now.held, new), KEEP_US)


class TryAnother(HoldChange, frozen=True, kw_only=True):
    """Jobs that are parked under `version` are given to a worker of another one. The answer: is that news?

    `by` is the asker's id: the same one is told so again. The task stays held under `version`.
    """

    version: str
    by: str

    def apply(self, body: bytes | None, now_us: int) -> Changed:
        """News once for each hold."""
        hold = self.known(body)
        was = hold.under(self.version)
        if not was.held or was.tried_by:
            return Changed(body, was.held and was.tried_by == self.by, KEEP_US)
        tried = replace(was, tried_by=self.by)
        return Changed(_encoder.encode(hold.with_one(tried)), tried.held, KEEP_US)


class FreeTask(HoldChange, frozen=True, kw_only=True):
    """An operator frees a task: nothing is held against it any more. The answer: the versions it was held under.

    `version` None: all. `by` is an id of this asking: the same one is answered the same.
    """

    version: str | None
    by: str

    def apply(self, body: bytes | None, now_us: int) -> Changed:
        """Forget the convictions too: a count begins anew."""
        hold = self.known(body)
        if hold.freed_by == self.by:
            return Changed(body, hold.freed, KEEP_US)
        chosen = [one for one in hold.versions if self.version in (None, one.version)]
        freed = tuple(one.version for one in chosen if one.held)
        if not freed:  # what is not held goes on counting
            return Changed(body, freed, KEEP_US)
        left = tuple(one for one in hold.versions if one not in chosen)
        return Changed(_encoder.encode(Hold(self.task, left, hold.runs, self.by, freed)), freed, KEEP_US)


class _Pace(msgspec.Struct, frozen=True):
    tokens: float
    filled_us: int


class OfferHeld(Change, frozen=True, kw_only=True):
    """How many parked jobs of one reason may be given back now, by all workers together? The answer is a number.

    An answer that is lost has given back nothing, and its share is lost as well.
    """

    rate: float = RATE

    def apply(self, body: bytes | None, now_us: int) -> Changed:
        """As many as the pace allows."""
        try:
            pace = _pace.decode(body) if body else _Pace(BURST, now_us)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pace = _Pace(BURST, now_us)
        tokens = min(BURST, pace.tokens + self.rate * max(0, now_us - pace.filled_us) / SECOND)
        count = max(0, int(tokens))
        return Changed(_encoder.encode(_Pace(tokens - count, now_us)), count, 3600 * SECOND)


def pace_of(reason: str) -> str:
    """The name of the register with the pace at which jobs of a reason are given back."""
    return _short(f"{PACES}{reason}", NAME, PACES)


_encoder = msgspec.json.Encoder()
_hold = msgspec.json.Decoder(Hold)
_pace = msgspec.json.Decoder(_Pace)


def decode(body: bytes | None) -> Hold | None:
    """What a register says; None where there is nothing that can be read."""
    try:
        return _hold.decode(body) if body else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def frees(mine: str, held: str) -> bool:
    """Whether a worker of the version `mine` may run what is parked under `held`.

    One without a version cannot say that its code is another.
    """
    return mine not in ("", held)
