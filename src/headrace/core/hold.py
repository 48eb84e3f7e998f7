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


class Survived(msgspec.Struct, frozen=True):
    """So many suspects have ended and left their workers alive, the last one at `at_us`."""

    count: int
    at_us: int


class Hold(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content of a task's register.

    `runs`: under which version a suspect ran last, by its id. `began`: when, of those whose end is not known.
    `survived`: by version, since the last conviction.
    """

    task: str
    versions: tuple[Suspicion, ...] = ()
    runs: dict[str, str] = {}
    began: dict[str, int] = {}
    survived: dict[str, Survived] = {}
    freed_by: str = ""  # the last one who freed it, and what that was
    freed: tuple[str, ...] = ()

    def under(self, version: str) -> Suspicion:
        """What is known under a version."""
        return next((one for one in self.versions if one.version == version), Suspicion(version))

    def under_way(self, version: str, since_us: int) -> list[str]:
        """Suspects that have begun under a version since then, and may have killed their workers already."""
        return [job for job, at in self.began.items() if at > since_us and self.runs.get(job) == version]

    def without(self, job: str) -> Hold:
        """A suspect is no longer under way."""
        return replace(self, began={other: at for other, at in self.began.items() if other != job})

    def harmless(self, version: str, now_us: int) -> int:
        """Suspects that were none, lately."""
        known = self.survived.get(version)
        return known.count if known is not None and known.at_us > now_us - WITHIN_US else 0

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

    Else the first worker of a new version that finds the body would be taken for the murderer. The answer: may it?
    False where the task is held. None: not now, since so many are under way that their deaths would have it held; else
    all suspects would have died before the first death is found. Each that does no harm makes room for one more: after
    a power cut there may be thousands, and nothing is wrong with any.
    """

    version: str
    job: str
    after: int = AFTER
    within_us: int = 90 * SECOND  # by then the death of a worker is found

    def apply(self, body: bytes | None, now_us: int) -> Changed:
        """Of many, the newest are remembered."""
        hold = self.known(body)
        known = hold.under(self.version)
        if known.held:
            return Changed(body, answer=False, keep_us=KEEP_US)
        under_way = hold.under_way(self.version, now_us - self.within_us)
        convicted = sum(at > now_us - WITHIN_US for at in known.jobs.values())
        most = max(1, self.after - convicted) + hold.harmless(self.version, now_us)
        if self.job not in under_way and len(under_way) >= most:
            return Changed(body, None, KEEP_US)
        if self.job in under_way and now_us - hold.began[self.job] < SECOND:  # its answer was lost
            return Changed(body, answer=True, keep_us=KEEP_US)
        others = {job: at for job, at in hold.began.items() if at > now_us - self.within_us}
        runs = {job: version for job, version in hold.runs.items() if job != self.job}
        noted = replace(
            hold,
            runs=dict([*runs.items(), (self.job, self.version)][-MOST_JOBS:]),
            began=dict([*others.items(), (self.job, now_us)][-MOST_JOBS:]),
        )
        return Changed(_encoder.encode(noted), answer=True, keep_us=KEEP_US)


class NoteEnd(HoldChange, frozen=True, kw_only=True):
    """A suspect is under way no more, and its worker lives. `ran`: to its own end. The answer says nothing."""

    job: str
    ran: bool

    def apply(self, body: bytes | None, now_us: int) -> Changed:
        """Make room for another one, or for two."""
        hold = self.known(body)
        if self.job not in hold.began:
            return Changed(body, None, KEEP_US)
        after, version = hold.without(self.job), hold.runs.get(self.job)
        if self.ran and version is not None:
            others = {name: known for name, known in hold.survived.items() if name != version}
            known = Survived(min(hold.harmless(version, now_us) + 1, MOST_JOBS), now_us)
            after = replace(after, survived=dict([*others.items(), (version, known)][-MOST_VERSIONS:]))
        return Changed(_encoder.encode(after), None, KEEP_US)


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
        suspects = replace(hold.without(self.job), survived={})
        after = body if now == was else _encoder.encode(suspects.with_one(now))
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
        free = Hold(self.task, left, hold.runs, freed_by=self.by, freed=freed)
        return Changed(_encoder.encode(free), freed, KEEP_US)


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
