-- Tables of the first schema. The hot table holds only jobs that will still run; what has ended and is kept stands
-- aside. Texts compare by their bytes, which is quick and is the order in which plans sort.

-- name: meta
create table headrace_meta (
    name text collate "C" primary key,
    value text not null
);

-- name: facts
-- `oldest`: code that knows this version of the schema may still use it, so that workers need not all be updated at once.
insert into headrace_meta (name, value)
values ('schema', '1'), ('oldest', '1'), ('installation_id', gen_random_uuid()::text);

-- name: places
-- A sequence, not a counter: a producer with a long transaction makes no other one wait. Kept without a cache, which
-- would give the places of one session out before those of another.
create sequence headrace_place as bigint cache 1;

-- name: jobs
-- `state`: scheduled, ready, running or parked. `since_us` = max(token, due_us): ready since then.
-- `held_key` is the unique key while this job holds it: it goes with the row, so ending a job frees its key.
-- Each job is written once more, by its claim: its page, and that of its id, have room for that.
create table headrace_jobs (
    id text collate "C" not null primary key with (fillfactor = 50),
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
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_scale_factor = 0.2,
    autovacuum_analyze_scale_factor = 0.1,
    autovacuum_analyze_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = false
);

-- name: jobs_key
create unique index headrace_jobs_key on headrace_jobs (queue, held_key) where held_key is not null;

-- name: jobs_ready
-- The order of claims. `since_us` rides along so that counting a queue reads the index only.
create index headrace_jobs_ready on headrace_jobs (queue, (-priority), place) include (since_us) where state = 'ready';

-- name: jobs_scheduled
create index headrace_jobs_scheduled on headrace_jobs (queue, due_us, place) include (since_us)
where state = 'scheduled';

-- name: jobs_running
create index headrace_jobs_running on headrace_jobs (worker, claim) where state = 'running';

-- name: ended
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

-- name: ended_finished
create index headrace_ended_finished on headrace_ended (state, finished_us, id) include (queue);

-- name: ended_kept
create index headrace_ended_kept on headrace_ended (keep_until_us) where keep_until_us is not null;

-- name: gone
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

-- name: gone_until
create index headrace_gone_until on headrace_gone (until_us);

-- name: workers
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

-- name: queues
-- Queues whose jobs may all have ended. Claims enter them, and no producer: its transaction may be long.
create table headrace_queues (
    name text collate "C" not null primary key
);

-- name: undo_ended
-- A resent enqueue may see neither the job, which another connection is about to make, nor its tombstone: by the time
-- its row is in, the job may have come and gone. So every statement that adds jobs looks once more, with the eyes of
-- its end, and takes back those that have a tombstone by then. Nobody else has seen them: nothing is committed yet.
-- One look for each new job by its id, and nothing that the planner could turn round: where it was told that the tables
-- are empty, it would go through them once for each. `offset 0` keeps the look apart, `+ 0` the index by time away.
create function headrace_undo_ended() returns trigger language plpgsql as $$
begin
    delete from headrace_jobs as j where j.id = any (array(
        select f.id from fresh as f
        where exists (select 1 from headrace_gone as g where g.id = f.id and g.until_us + 0 > f.created_us offset 0)
    ));
    return null;
end
$$;

-- name: jobs_undo
create trigger headrace_jobs_undo after insert on headrace_jobs
referencing new table as fresh for each statement execute function headrace_undo_ended();
