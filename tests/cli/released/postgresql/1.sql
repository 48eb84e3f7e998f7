-- What version 1 made, and a row as it left it. Never to be changed: upgrades from it are tested.

create table headrace_meta (
    name text collate "C" primary key,
    value text not null
);

-- `oldest`: code that knows this version of the schema may still use it, so that workers need not all be updated at once.
insert into headrace_meta (name, value)
values ('schema', '1'), ('oldest', '1'), ('installation_id', gen_random_uuid()::text);

-- A sequence, not a counter: a producer with a long transaction makes no other one wait. Kept without a cache, which
-- would give the places of one session out before those of another.
create sequence headrace_place as bigint cache 1;

-- `state`: scheduled, ready, running or parked. `since_us` = max(token, due_us): ready since then.
-- `held_key` is the unique key while this job holds it: it goes with the row, so ending a job frees its key.
create table headrace_jobs (
    id text collate "C" not null primary key,
    queue text collate "C" not null,
    task text collate "C" not null,
    state text collate "C" not null,
    priority integer not null default 0,
    place bigint not null default nextval('headrace_place'),
    token bigint not null,
    created_us bigint not null,
    base_us bigint not null,
    due_us bigint not null,
    since_us bigint not null,
    claimed_us bigint,
    claim bigint not null default 0,
    unique_us bigint not null default 0,
    cancel boolean not null default false,
    derived boolean not null default false,
    worker text collate "C" not null default '',
    unique_key text collate "C",
    held_key text collate "C",
    unique_until text collate "C" not null default 'end',
    reason text collate "C" not null default '',
    trail bytea,
    body bytea not null
) with (
    fillfactor = 90,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_scale_factor = 0.2,
    autovacuum_analyze_scale_factor = 0.1,
    autovacuum_analyze_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = false
);

create unique index headrace_jobs_key on headrace_jobs (queue, held_key) where held_key is not null;

-- The order of claims. `since_us` rides along so that counting a queue reads the index only.
create index headrace_jobs_ready on headrace_jobs (queue, (-priority), place) include (since_us) where state = 'ready';

create index headrace_jobs_scheduled on headrace_jobs (queue, due_us, place) include (since_us)
where state = 'scheduled';

create index headrace_jobs_running on headrace_jobs (worker, claim) where state = 'running';

-- Failed jobs, and finished ones that are kept for a while.
create table headrace_ended (
    id text collate "C" not null primary key,
    queue text collate "C" not null,
    task text collate "C" not null,
    state text collate "C" not null,
    priority integer not null,
    token bigint not null,
    created_us bigint not null,
    base_us bigint not null,
    due_us bigint not null,
    finished_us bigint not null,
    keep_until_us bigint,
    unique_us bigint not null,
    derived boolean not null,
    unique_key text collate "C",
    unique_until text collate "C" not null,
    reason text collate "C" not null,
    trail bytea,
    body bytea not null
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

create index headrace_ended_finished on headrace_ended (state, finished_us, id) include (queue);

create index headrace_ended_kept on headrace_ended (keep_until_us) where keep_until_us is not null;

-- Tombstones: ids that ended a while ago, so that a resent enqueue makes no second job.
create table headrace_gone (
    id text collate "C" not null primary key,
    until_us bigint not null,
    token bigint not null
) with (
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = false
);

create index headrace_gone_until on headrace_gone (until_us);

-- One row per worker: a heartbeat writes this row and no job's. No index names what it writes, and the pages have room.
create table headrace_workers (
    worker text collate "C" not null primary key,
    lease_until_us bigint not null,
    last_claim bigint not null default 0,
    prior_claim bigint not null default 0
) with (
    fillfactor = 30,
    autovacuum_vacuum_scale_factor = 0.1,
    autovacuum_vacuum_threshold = 200,
    autovacuum_vacuum_cost_delay = 0
);

-- Queues whose jobs may all have ended. Claims enter them, and no producer: its transaction may be long.
create table headrace_queues (
    name text collate "C" not null primary key
);

-- A resent enqueue may see neither the job, which another connection is about to make, nor its tombstone: by the time
-- its row is in, the job may have come and gone. So every statement that adds jobs looks once more, with the eyes of
-- its end, and takes back those that have a tombstone by then. Nobody else has seen them: nothing is committed yet.
create function headrace_undo_ended() returns trigger language plpgsql as $$
begin
    delete from headrace_jobs as j using fresh as f, headrace_gone as g
    where g.id = f.id and g.until_us > f.created_us and j.id = f.id;
    return null;
end
$$;

create trigger headrace_jobs_undo after insert on headrace_jobs
referencing new table as fresh for each statement execute function headrace_undo_ended();

insert into headrace_jobs (id, queue, task, state, priority, token, created_us, base_us, due_us, since_us, body)
values ('of-version-1', 'default', 'shop.mail', 'ready', 0, 1780000000000000, 1780000000000000, 1780000000000000, 1780000000000000, 1780000000000000,
    '\x7b2276223a312c226964223a226f662d76657273696f6e2d31222c227461736b223a2273686f702e6d61696c222c2261726773223a7b226f726465725f6964223a31377d7d');

insert into headrace_queues (name) values ('default');
