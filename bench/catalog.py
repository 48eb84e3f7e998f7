"""What is measured: one entry per variant that gets a row in the tables.

To add a system, write peers/peer_NAME.py (see peerlib.SyncPeer and AsyncPeer) and add an entry here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Store = Literal["redis", "sqlite", "postgres", "mysql"]
Core = Literal["ours", "python", "native", "node"]


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One system with one set of settings."""

    id: str
    script: str  # under peers/
    settings: str  # worker settings of the throughput and io runs, for the table
    requirements: tuple[str, ...] = ()  # exact versions; none: what runs the benchmark has it
    store: Store = "redis"
    core: Core = "python"  # what the worker is made of
    environment: str = ""  # variants with one name share an installation; default: the id
    mode: str = ""  # handed to the script as BENCH_MODE
    job: Literal["async", "sync"] = "sync"  # what handlers are, and how the producer enqueues
    bulk: str = ""  # the bulk call; empty: there is none
    gap: float = 0.02  # widest random pause between latency samples, about the polling interval; seconds
    samples: int = 300
    reliable: str = ""  # settings of the crash workload's second row; empty: there is none
    python: str = ""  # an interpreter other than the one that runs the benchmark
    setup: bool = False  # whether an emptied store needs the system's own tables first
    processes: int = 1  # that run jobs; only those with one are compared
    joins: tuple[str, ...] = ()  # libraries whose transactions its jobs can join
    writer: str = ""  # the library whose transactions write events; empty: no relay is measured

    @property
    def ours(self) -> bool:
        """Whether this is headrace itself."""
        return self.core == "ours"

    @property
    def home(self) -> str:
        """The name of the environment."""
        return self.environment or self.id


_HEADRACE = Variant(
    id="headrace-redis",
    script="peer_headrace.py",
    core="ours",
    mode="redis",
    job="async",
    settings="`headrace work --concurrency 100`",
    bulk="aenqueue_many, 5000 a call",
    reliable="lease 6 s (default 30 s)",
)
_OUR_SYNC_BULK = "enqueue_many, 5000 a call"
_SYNC_BULK = "enqueue_many, 1000 a call"
OURS = [
    _HEADRACE,
    replace(_HEADRACE, id="headrace-redis-sync", mode="redis-sync", job="sync", bulk=_OUR_SYNC_BULK),
    replace(_HEADRACE, id="headrace-sqlite", store="sqlite", mode="sqlite"),
    replace(
        _HEADRACE,
        id="headrace-sqlite-sync",
        store="sqlite",
        mode="sqlite-sync",
        job="sync",
        bulk=_OUR_SYNC_BULK,
        joins=("sqlite3",),
        writer="sqlite3",
    ),
    replace(_HEADRACE, id="headrace-postgres", store="postgres", mode="postgres", joins=("psycopg-async",)),
    replace(
        _HEADRACE,
        id="headrace-postgres-sync",
        store="postgres",
        mode="postgres-sync",
        job="sync",
        bulk=_OUR_SYNC_BULK,
        joins=("psycopg", "session"),
        writer="psycopg",
    ),
    replace(_HEADRACE, id="headrace-mysql", store="mysql", mode="mysql", joins=("pymysql",), writer="pymysql"),
]

_CLIENT = ("redis==8.1.0", "hiredis==3.5.0")
_UVLOOP = "uvloop==0.23.0"

_DRAMATIQ = Variant(
    id="dramatiq",
    environment="dramatiq",
    script="peer_dramatiq.py",
    requirements=("dramatiq[redis]==2.2.1", *_CLIENT),
    settings="--processes 1 --threads 8 (io: 100), queue_prefetch 1000",
    reliable="heartbeat_timeout 10 s (default 60 s), maintenance_chance 10 % (default 0.1 %)",
)
_HUEY = Variant(
    id="huey-redis",
    environment="huey",
    script="peer_huey.py",
    requirements=("huey==3.5.4", *_CLIENT),
    mode="redis",
    settings="-k thread -w 4 (io: -w 100), no results",
)
_TASKIQ = Variant(
    id="taskiq-stream",
    environment="taskiq",
    script="peer_taskiq.py",
    requirements=("taskiq==0.13.0", "taskiq-redis==1.2.4", *_CLIENT, _UVLOOP),
    mode="stream",
    job="async",
    settings="workers 1, max-async-tasks 100, max-prefetch 100, no-parse, uvloop, no result backend",
    reliable="idle_timeout 5 s (default 10 min), lock timeout 5 s",
)
_ARDIQ = Variant(
    id="ardiq",
    environment="ardiq",
    script="peer_ardiq.py",
    core="native",
    python="python3.13",
    requirements=("ardiq==1.2.0", _UVLOOP),
    mode="async",
    job="async",
    bulk=_SYNC_BULK,
    settings="concurrency 100, prefetch 200 (needs Python 3.12)",
    reliable="idle_timeout 5 s (default 60 s)",
)
_BULLMQ = Variant(
    id="bullmq",
    script="peer_bullmq.mjs",
    core="node",
    requirements=("bullmq@6.7.0", "ioredis@6.0.0"),
    job="async",
    bulk="addBulk, 1000 a call",
    settings="concurrency 100, removeOnComplete",
    reliable="stalledInterval 5 s, lockDuration 5 s (default 30 s)",
)
_PGQUEUER = Variant(
    id="pgqueuer",
    script="peer_pgqueuer.py",
    requirements=("pgqueuer[asyncpg]==1.6.0", _UVLOOP),
    store="postgres",
    job="async",
    setup=True,
    bulk="Queries.enqueue of lists, 1000 a call",
    settings="batch_size 200, max_concurrent_tasks 400 (io: 50 and 100), asyncpg pool 10, uvloop",
    reliable="heartbeat_timeout 5 s (default 30 s)",
    joins=("asyncpg",),
)
_AWA = Variant(
    id="awa",
    script="peer_awa.py",
    core="native",
    requirements=(
        "awa-pg==0.6.9",
        "psycopg[binary]==3.3.9",
    ),
    store="postgres",
    job="async",
    setup=True,
    bulk="enqueue_many_copy, 5000 a call",
    gap=0.1,
    settings="200 workers on one queue",
    reliable="heartbeat 2 s, staleness 6 s, rescue every 2 s",
    joins=("psycopg-async",),
)
_PROCRASTINATE = Variant(
    id="procrastinate",
    script="peer_procrastinate.py",
    requirements=("procrastinate==3.10.0", "psycopg[binary]==3.3.9", _UVLOOP),
    store="postgres",
    job="async",
    setup=True,
    bulk="batch_defer_async, 1000 a call",
    settings="concurrency 100, listen/notify, uvloop",
    reliable="documented periodic retry of stalled jobs (every 5 s, heartbeat 2 s, stalled after 10 s)",
    joins=("psycopg-async",),
)
FAST = [
    _DRAMATIQ,
    _HUEY,
    replace(_HUEY, id="huey-sqlite", store="sqlite", mode="sqlite", gap=0.5, samples=60),
    _TASKIQ,
    _ARDIQ,
    _BULLMQ,
    _PGQUEUER,
    _AWA,
]

_CELERY = Variant(
    id="celery-prefork",
    environment="celery",
    script="peer_celery.py",
    requirements=("celery[redis]==5.7.0", *_CLIENT),
    mode="prefork",
    processes=2,
    bulk="group().apply_async() on one producer; no real bulk call",
    settings="-P prefork -c 2 (io: -c 16), prefetch-multiplier 64",
    reliable="acks_late, reject_on_worker_lost, visibility_timeout 10 s (default 1 h)",
)
_RQ = Variant(
    id="rq-simple",
    environment="rq",
    script="peer_rq.py",
    requirements=("rq==3.0.0", *_CLIENT),
    mode="simple",
    bulk=_SYNC_BULK,
    settings="SimpleWorker, 1 job at a time",
    reliable="Retry(max=3), maintenance-interval 10, job-monitoring-interval 5, worker-ttl 20",
)
_STREAQ = Variant(
    id="streaq",
    environment="streaq",
    script="peer_streaq.py",
    requirements=("streaq==7.2.0", "coredis==6.9.0", _UVLOOP),
    mode="async",
    job="async",
    bulk=_SYNC_BULK,
    settings="concurrency 100, prefetch 200, uvloop, ttl 0",
    reliable="idle_timeout 5 s (default 60 s)",
)
_ARQ = Variant(
    id="arq",
    script="peer_arq.py",
    requirements=("arq==0.28.0", "redis==5.3.1", "hiredis==3.5.0", _UVLOOP),
    job="async",
    settings="max_jobs 100, poll_delay 0.02 (default 0.5), keep_result 0, uvloop",
    gap=0.5,
    samples=60,
    reliable="job_timeout 5 s (default 300 s)",
)
_SAQ = Variant(
    id="saq-redis",
    environment="saq",
    script="peer_saq.py",
    requirements=("saq[redis,hiredis]==0.26.4", "redis==7.4.1", "hiredis==3.5.0", _UVLOOP, "typing_extensions==4.16.0"),
    job="async",
    settings="concurrency 100, uvloop, result ttl -1",
    reliable="retries 3, timeout 4 s, heartbeat 2 s, sweep 5 s",
)
_MORE = [
    _PROCRASTINATE,
    replace(
        _DRAMATIQ,
        id="dramatiq-2proc",
        mode="2proc",
        processes=2,
        settings="--processes 2 --threads 8 (io: 100 each), queue_prefetch 1000",
    ),
    replace(_TASKIQ, id="taskiq-list", mode="list", reliable=""),
    replace(_TASKIQ, id="taskiq-list-sync", mode="list-sync", job="sync", reliable=""),
    replace(_ARDIQ, id="ardiq-sync", mode="sync", job="sync"),
    _CELERY,
    replace(
        _CELERY,
        id="celery-threads",
        mode="threads",
        processes=1,
        settings="-P threads -c 10 (io: -c 100), prefetch-multiplier 64",
    ),
    _RQ,
    replace(_RQ, id="rq-fork", mode="fork", settings="Worker (fork per job), 1 job at a time"),
    _ARQ,
    _SAQ,
    _STREAQ,
    replace(_STREAQ, id="streaq-sync", mode="sync", job="sync"),
]

VARIANTS = [*OURS, *FAST, *_MORE]
BY_ID = {variant.id: variant for variant in VARIANTS}
