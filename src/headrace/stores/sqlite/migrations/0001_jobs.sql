-- Tables of the first schema. The hot table holds only jobs that will still run; what has ended and is kept stands aside.

-- name: meta
create table headrace_meta (
    name text primary key,
    value not null
) without rowid;

-- name: facts
-- `oldest`: code that knows this version of the schema may still use it, so that workers need not all be updated at once.
-- `place` is the last place given to a job. It is counted here, not taken from the rowids, so that none is given twice.
insert into headrace_meta (name, value)
values ('schema', 1), ('oldest', 1), ('installation_id', lower(hex(randomblob(16)))), ('place', 0);

-- name: jobs
-- `state`: scheduled, ready, running or parked. `since_us` = max(token, due_us): ready since then.
-- `held_key` is the unique key while this job holds it: it goes with the row, so ending a job frees its key.
create table headrace_jobs (
    place integer primary key,
    id text not null,
    queue text not null,
    task text not null,
    state text not null,
    priority integer not null,
    token integer not null,
    created_us integer not null,
    base_us integer not null,
    due_us integer not null,
    since_us integer not null,
    claimed_us integer,
    worker text,
    claim integer not null default 0,
    cancel integer not null default 0,
    derived integer not null default 0,
    unique_key text,
    held_key text,
    unique_until text not null default 'end',
    unique_us integer not null default 0,
    reason text not null default '',
    trail blob,
    body blob not null
);

-- name: jobs_id
create unique index headrace_jobs_id on headrace_jobs (id);

-- name: jobs_key
create unique index headrace_jobs_key on headrace_jobs (queue, held_key) where held_key is not null;

-- name: jobs_ready
-- The order of claims. `since_us` rides along so that counting a queue reads the index only.
create index headrace_jobs_ready on headrace_jobs (queue, priority desc, place, since_us) where state = 'ready';

-- name: jobs_scheduled
create index headrace_jobs_scheduled on headrace_jobs (queue, due_us, place, since_us) where state = 'scheduled';

-- name: jobs_running
create index headrace_jobs_running on headrace_jobs (worker) where state = 'running';

-- name: ended
-- Failed jobs, and finished ones that are kept for a while.
create table headrace_ended (
    id text not null unique,
    queue text not null,
    task text not null,
    state text not null,
    priority integer not null,
    token integer not null,
    created_us integer not null,
    base_us integer not null,
    due_us integer not null,
    finished_us integer not null,
    keep_until_us integer,
    derived integer not null,
    unique_key text,
    unique_until text not null,
    unique_us integer not null,
    reason text not null,
    trail blob,
    body blob not null
);

-- name: ended_finished
create index headrace_ended_finished on headrace_ended (state, finished_us, id, queue);

-- name: ended_kept
create index headrace_ended_kept on headrace_ended (keep_until_us) where keep_until_us is not null;

-- name: gone
-- Tombstones: ids that ended a while ago, so that a resent enqueue makes no second job.
create table headrace_gone (
    id text primary key,
    until_us integer not null,
    token integer not null
) without rowid;

-- name: gone_until
create index headrace_gone_until on headrace_gone (until_us);

-- name: workers
-- One row per worker: a heartbeat writes this row and no job's.
create table headrace_workers (
    worker text primary key,
    lease_until_us integer not null,
    last_claim integer not null
) without rowid;

-- name: queues
create table headrace_queues (
    name text primary key
) without rowid;
