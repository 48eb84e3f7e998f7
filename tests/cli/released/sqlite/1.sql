-- What version 1 made, and a row as it left it. Never to be changed: upgrades from it are tested.

create table headrace_meta (
    name text primary key,
    value not null
) without rowid;

-- `oldest`: code that knows this version of the schema may still use it, so that workers need not all be updated at once.
-- `place` is the last place given to a job. It is counted here, not taken from the rowids, so that none is given twice.
insert into headrace_meta (name, value)
values ('schema', 1), ('oldest', 1), ('installation_id', lower(hex(randomblob(16)))), ('place', 0);

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

create unique index headrace_jobs_id on headrace_jobs (id);

create unique index headrace_jobs_key on headrace_jobs (queue, held_key) where held_key is not null;

-- The order of claims. `since_us` rides along so that counting a queue reads the index only.
create index headrace_jobs_ready on headrace_jobs (queue, priority desc, place, since_us) where state = 'ready';

create index headrace_jobs_scheduled on headrace_jobs (queue, due_us, place, since_us) where state = 'scheduled';

create index headrace_jobs_running on headrace_jobs (worker) where state = 'running';

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

create index headrace_ended_finished on headrace_ended (state, finished_us, id, queue);

create index headrace_ended_kept on headrace_ended (keep_until_us) where keep_until_us is not null;

-- Tombstones: ids that ended a while ago, so that a resent enqueue makes no second job.
create table headrace_gone (
    id text primary key,
    until_us integer not null,
    token integer not null
) without rowid;

create index headrace_gone_until on headrace_gone (until_us);

-- One row per worker: a heartbeat writes this row and no job's.
create table headrace_workers (
    worker text primary key,
    lease_until_us integer not null,
    last_claim integer not null
) without rowid;

create table headrace_queues (
    name text primary key
) without rowid;

insert into headrace_jobs (place, id, queue, task, state, priority, token, created_us, base_us, due_us, since_us, body)
values (1, 'of-version-1', 'default', 'shop.mail', 'ready', 0, 1780000000000000, 1780000000000000, 1780000000000000, 1780000000000000, 1780000000000000,
    x'7b2276223a312c226964223a226f662d76657273696f6e2d31222c227461736b223a2273686f702e6d61696c222c2261726773223a7b226f726465725f6964223a31377d7d');

insert into headrace_queues (name) values ('default');

update headrace_meta set value = 1 where name = 'place';
