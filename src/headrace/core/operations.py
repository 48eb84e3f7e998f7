"""Every store operation, as data: a frozen record and the type of its answer.

All times are integers in microseconds: `*_us` fields named `delay`, `lease`, `keep`, `age` are durations,
the others are moments on the store's clock since the Unix epoch. Nothing here touches a clock.
"""

from __future__ import annotations

from typing import ClassVar, Generic, Literal, TypeVar

import msgspec

from headrace.core.states import State

R_co = TypeVar("R_co", covariant=True)

FAR_US = 2**62  # later than any moment
POLL_US = 1_000_000  # idle workers look at least this often
CANCELLED_KEEP_US = 24 * 3600 * 1_000_000  # a cancelled job can be looked at for so long, whoever cancelled it
UniqueUntil = Literal["end", "start"]


class NewJob(msgspec.Struct, frozen=True, gc=False):
    """A job on its way into the store. `body` is the encoded envelope, opaque to every store."""

    id: str
    queue: str
    task: str
    body: bytes
    priority: int = 0
    delay_us: int = 0  # counted from the store's now
    due_us: int | None = None  # a moment; wins over delay_us
    unique: str | None = None
    unique_until: UniqueUntil = "end"
    unique_us: int = 0  # lifetime of the key: cleans it up when its job is gone
    derived: bool = False  # the id is user-given or derived: its tombstone lives 24 h, not 60 s


class Enqueued(msgspec.Struct, frozen=True, gc=False):
    """`new`: stored. `exists`: this id was enqueued before. `duplicate`: job `id` holds the unique key."""

    status: Literal["new", "exists", "duplicate"]
    id: str


class ClaimedJob(msgspec.Struct, frozen=True, gc=False):
    """A job in the hands of a worker, under (id, token)."""

    id: str
    queue: str
    token: int
    body: bytes
    trail: bytes | None  # None until the job has once come back
    created_us: int  # first enqueue
    base_us: int  # enqueue or last replay: deadlines count from here


class Claimed(msgspec.Struct, frozen=True, gc=False):
    """What a claim brought. `more`: ready jobs are left behind in these queues."""

    now_us: int
    jobs: list[ClaimedJob]
    more: bool
    next_due_us: int | None  # the earliest scheduled job of these queues


class OnceEnd(msgspec.Struct, frozen=True, gc=False):
    """How the holder of a once record ends it, under its fence; see core/once_records.py."""

    scope: str
    key: str
    fence: int
    state: Literal["done", "failed", "free"]
    result: bytes | None = None  # JSON
    keep_us: int = 0  # how long it is remembered


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """How one claim ended. `state` is where the job goes.

    READY keeps the job's place (released, crashed); SCHEDULED is due after `delay_us`; a terminal state
    frees the unique key and leaves a tombstone; FAILED is always kept, the others for `keep_us`. A job that would
    go back and was asked to cancel ends CANCELLED instead, with that reason, and is kept for `keep_us` too.
    `once`, of a job that ends: its record ends with it; where that is not the job's any more, nothing is changed.
    `then`, of a job that ends: jobs of the same queue that are enqueued with it.
    """

    id: str
    queue: str
    token: int
    state: State
    delay_us: int = 0
    trail: bytes | None = None  # None: unchanged
    keep_us: int = 0
    reason: str = ""  # short and searchable: an error's type name, "crashed", "unknown task"
    once: OnceEnd | None = None
    then: tuple[NewJob, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what no store could do: a claim that ends is not running any more."""
        if self.state is State.RUNNING:
            raise ValueError(f"the claim of job {self.id!r} cannot end in running")

    @property
    def only_parks(self) -> bool:
        """Whether nothing is said of the job but what it waits for: of such there are many while a circuit is open."""
        return self.state is State.PARKED and self.trail is None and not self.delay_us and self.once is None


class Held(msgspec.Struct, frozen=True, gc=False):
    """A claim as its worker knows it."""

    id: str
    queue: str
    token: int


class Orphan(msgspec.Struct, frozen=True, gc=False):
    """A running job whose worker's lease is over or missing. `alone`: that worker held nothing else."""

    id: str
    queue: str
    token: int
    worker: str
    trail: bytes | None
    alone: bool
    cancel: bool = False


class Beaten(msgspec.Struct, frozen=True, gc=False):
    """The store's answer to a heartbeat."""

    now_us: int
    lost: list[Held]  # those of `held` that this worker does not hold any more
    cancel: list[Held]  # those of `held` that somebody asked to cancel
    released: int  # jobs given back that the worker did not know of


class Rescued(msgspec.Struct, frozen=True, gc=False):
    """Jobs that were taken from dead workers."""

    jobs: list[Orphan]


class JobView(msgspec.Struct, frozen=True):
    """One job as an operator sees it. `body` is None in listings."""

    id: str
    queue: str
    task: str
    state: State
    priority: int
    token: int
    created_us: int
    due_us: int
    base_us: int
    finished_us: int | None = None
    claimed_us: int | None = None
    worker: str | None = None
    reason: str = ""
    unique: str | None = None
    cancel: bool = False
    trail: bytes | None = None
    body: bytes | None = None


class Page(msgspec.Struct, frozen=True):
    """A page of jobs and the cursor of the next one (None at the end)."""

    jobs: list[JobView]
    next: str | None


class QueueView(msgspec.Struct, frozen=True):
    """Counts of one queue. Due jobs count as ready, whether or not anybody has promoted them."""

    name: str
    ready: int
    scheduled: int
    running: int
    parked: int
    failed: int
    oldest_ready_us: int | None
    oldest_running_us: int | None


class WorkerView(msgspec.Struct, frozen=True):
    """A registered worker and what it holds."""

    worker: str
    queue: str | None  # None where the store keeps one row for all queues
    lease_until_us: int
    held: int


class Replayed(msgspec.Struct, frozen=True):
    """`replayed` ids are ready again; `skipped` maps an id to the reason."""

    replayed: list[str]
    skipped: dict[str, str]


class Finding(msgspec.Struct, frozen=True):
    """One line of `headrace doctor`."""

    level: Literal["ok", "info", "warning", "error"]
    subject: str
    text: str
    fix: str = ""


class Operation(Generic[R_co]):
    """Base of all operations; `R_co` is the type of the answer. `writes` opens a write transaction on SQL.

    `rung` names a queue whose listeners are woken each time. Before the first one with `needs_schema`, a driver of a
    SQL store prepares the schema.
    """

    __slots__ = ()
    writes = True
    needs_schema = True
    rung: ClassVar[str | None] = None


class Prepare(msgspec.Struct, Operation[None], frozen=True):
    """Create what the store needs (schema) and refuse settings that would lose jobs. Safe to repeat."""


class Enqueue(msgspec.Struct, Operation["list[Enqueued]"], frozen=True):
    """Store jobs, all or none. Idempotent by id; answers stand in the order of `jobs`.

    On Redis "all or none" holds per queue: a call for several queues is one atomic step for each.
    """

    jobs: tuple[NewJob, ...]


class Claim(msgspec.Struct, Operation[Claimed], frozen=True):
    """Take up to `limit` jobs, queue by queue in the given order. Repeating `number` repeats the answer."""

    worker: str
    number: int  # grows by one with each new claim of this worker
    queues: tuple[str, ...]
    limit: int
    lease_us: int


class Settle(msgspec.Struct, Operation["list[bool]"], frozen=True):
    """End claims. False stands where the token was stale: nothing was changed there."""

    worker: str
    outcomes: tuple[Outcome, ...]


class Beat(msgspec.Struct, Operation[Beaten], frozen=True):
    """Extend the worker's lease over all it holds, also one that is over but not yet rescued.

    Jobs the store holds for it, which are not in `held` and whose claim number is below `open_claim`, are
    given back: their claim's reply was lost and nobody will run them.
    """

    worker: str
    queues: tuple[str, ...]
    lease_us: int
    held: tuple[Held, ...]
    open_claim: int  # the oldest claim number not answered yet


class Leave(msgspec.Struct, Operation[int], frozen=True):
    """Unregister a worker; whatever it still holds is given back. Answers how many jobs that were."""

    worker: str
    queues: tuple[str, ...]


class Rescue(msgspec.Struct, Operation[Rescued], frozen=True):
    """Give back the jobs of workers whose lease is over or missing, each with one crash more.

    A worker that is found dead in these queues is rescued whole, whatever other queues it served and whatever the
    limit: a job that is rescued after the others would look as if its worker had held nothing else.

    Where the store's now is beyond `not_after_us`, nothing is rescued: its clock has jumped since the caller's last
    heartbeat, so that the leases of the living look over as well.
    """

    queues: tuple[str, ...]
    limit: int = 1000
    not_after_us: int | None = None


class Promote(msgspec.Struct, Operation[int], frozen=True):
    """Make due jobs ready. Claims and enqueues do it by themselves; this serves an autoscaler at zero workers."""

    queues: tuple[str, ...]
    limit: int = 1000


class Cancel(msgspec.Struct, Operation["Literal['cancelled', 'requested', 'finished', 'absent']"], frozen=True):
    """Cancel a waiting job at once, or ask the worker of a running one."""

    id: str
    queue: str | None = None  # a hint where the id is to be found
    keep_us: int = 0


class Get(msgspec.Struct, Operation["JobView | None"], frozen=True):
    """One job with its body, whatever its state."""

    writes = False
    id: str
    queue: str | None = None


class List(msgspec.Struct, Operation[Page], frozen=True):
    """A page of jobs in one state, without bodies unless asked. Failed ones newest first, others in queue order."""

    writes = False
    state: State
    queue: str | None = None
    task: str | None = None
    reason: str | None = None
    limit: int = 100
    cursor: str | None = None
    bodies: bool = False


class Queues(msgspec.Struct, Operation["list[QueueView]"], frozen=True):
    """All known queues, sorted by name."""

    writes = False


class Workers(msgspec.Struct, Operation["list[WorkerView]"], frozen=True):
    """All registered workers."""

    writes = False


class Replay(msgspec.Struct, Operation[Replayed], frozen=True):
    """Make failed jobs ready again with counts reset: same id, options and unique key.

    Of those that failed at `before_us` or later nothing is done ("is failed again"): somebody else has replayed them.
    """

    ids: tuple[str, ...]
    queue: str | None = None
    before_us: int = FAR_US


class Edit(msgspec.Struct, Operation[bool], frozen=True):
    """Replace the body and the trail of a failed job whose body is `was`, or this one already. Else False."""

    id: str
    queue: str
    was: bytes
    body: bytes
    trail: bytes


class Forget(msgspec.Struct, Operation[int], frozen=True):
    """Delete failed or kept finished jobs. Answers how many there were."""

    ids: tuple[str, ...]
    queue: str | None = None


class Pruned(msgspec.Struct, frozen=True):
    """How many failed jobs went. `more`: something whose time is over is left for another call."""

    failed: int
    more: bool


class Prune(msgspec.Struct, Operation[Pruned], frozen=True):
    """Delete failed jobs older than `age_us`, and the oldest beyond `most`, at most `limit` of them.

    Kept jobs, tombstones and stray unique keys go too when their time is over, at most `limit` of each.
    """

    age_us: int | None = None
    most: int | None = None
    queue: str | None = None
    task: str | None = None
    limit: int = 1000


class Inspect(msgspec.Struct, Operation["list[Finding]"], frozen=True):
    """What the store's own settings promise, and what to change."""

    writes = False
