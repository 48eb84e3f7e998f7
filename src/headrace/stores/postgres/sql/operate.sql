-- Operators act: cancel, replay, edit, forget, prune.

-- name: find
-- The moment, and where a job stands, locked there: a claim or a settle that is under way ends first.
select coalesce(:now::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint), j.state
from headrace_jobs as j where j.id = :id for update;

-- name: finished
-- Whether this id was a job that is over. `until_us + 0`: with statistics of a moment when there were no tombstones, the
-- planner would else look through all of them by their time.
with clock (now) as materialized (
    select coalesce(:now::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint)
)
select exists (select 1 from headrace_ended where id between :id and :id order by id offset 0)
    or exists (select 1 from headrace_gone as g cross join clock as c where g.id = :id and g.until_us + 0 > c.now);

-- name: ask
update headrace_jobs set cancel = true where id = :id;

-- name: cancel
-- End a job that nobody runs: a tombstone for its id, a copy where it is kept; its key goes with its row.
with ended as (
    delete from headrace_jobs where id = :id
    returning id, queue, task, priority, token, created_us, base_us, due_us, derived, unique_key, unique_until, unique_us,
        trail, body
),
buried as (
    insert into headrace_gone as g (id, until_us, token)
    select e.id, :now::bigint + case when e.derived then :derived_us::bigint else :random_us::bigint end, e.token
    from ended as e
    on conflict (id) do update set until_us = excluded.until_us, token = excluded.token
),
kept as (
    insert into headrace_ended (
        id, queue, task, state, priority, token, created_us, base_us, due_us, finished_us, keep_until_us,
        unique_us, derived, unique_key, unique_until, reason, trail, body
    )
    select e.id, e.queue, e.task, 'cancelled', e.priority, e.token, e.created_us, e.base_us, e.due_us, :now,
        :now::bigint + :keep_us::bigint, e.unique_us, e.derived, e.unique_key, e.unique_until, 'cancelled', e.trail, e.body
    from ended as e where :keep_us::bigint > 0
    on conflict (id) do nothing
)
insert into headrace_queues (name) select queue from ended on conflict do nothing;

-- name: now
select coalesce(:now::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint);

-- name: states
select id, state from headrace_jobs where id = any (:ids::text[]);

-- name: replayable
-- Locked in one order, so that two replays of the same jobs wait for each other.
-- One that failed at :before or later has been replayed since.
select id, case when state = 'failed' and finished_us >= :before::bigint then 'failed again' else state end,
    queue, token, unique_key, trail from headrace_ended
where id = any (:ids::text[]) order by id for update;

-- name: holders
-- Who holds these unique keys.
select j.queue, j.held_key, j.id from unnest(:queues::text[], :keys::text[]) as k (queue, key)
cross join lateral (
    select h.queue, h.held_key, h.id from headrace_jobs as h where h.queue = k.queue and h.held_key = k.key offset 0
) as j;

-- name: replay
-- The same jobs again, at the end of the line: id, options and unique key. Tombstones are gone by now. One whose key
-- somebody has just taken stays as it is.
with again as materialized (
    select r.*, nextval('headrace_place') as place
    from unnest(:ids::text[], :tokens::bigint[], :trails::bytea[]) with ordinality as r (id, token, trail, nth)
)
insert into headrace_jobs (
    place, state, token, base_us, due_us, since_us, trail, held_key,
    id, queue, task, priority, created_us, derived, unique_key, unique_until, unique_us, body
)
select a.place, 'ready', a.token, :now, :now, a.token, a.trail, e.unique_key,
    e.id, e.queue, e.task, e.priority, e.created_us, e.derived, e.unique_key, e.unique_until, e.unique_us, e.body
from again as a
cross join lateral (select * from headrace_ended as f where f.id between a.id and a.id order by f.id offset 0) as e
order by e.unique_key, e.queue, a.nth
on conflict do nothing
returning id;

-- name: edit
update headrace_ended set body = :body, trail = :trail
where id = :id and queue = :queue and state = 'failed' and body in (:was::bytea, :body::bytea)
returning 1;

-- name: delete_ended
delete from headrace_ended where id = any (:ids::text[]) returning id;

-- name: delete_gone
delete from headrace_gone where id = any (:ids::text[]);

-- name: prune_gone
delete from headrace_gone where ctid = any (array(
    select g.ctid from headrace_gone as g where g.until_us <= :now order by g.until_us limit :limit for update skip locked
));

-- name: prune_kept
delete from headrace_ended where ctid = any (array(
    select e.ctid from headrace_ended as e
    where e.keep_until_us is not null and e.keep_until_us <= :now
    order by e.keep_until_us limit :limit for update skip locked
));

-- name: left
-- Whether tombstones, kept jobs, once records or registers are left whose time is over.
select exists (select 1 from headrace_gone where until_us <= :now)
    or exists (select 1 from headrace_ended where keep_until_us is not null and keep_until_us <= :now)
    or exists (select 1 from headrace_once where until_us <= :now)
    or exists (select 1 from headrace_registers where until_us <= :now);

-- name: count_failed
-- All failed jobs of a filter, and those that ended before a moment.
select count(*), count(*) filter (where finished_us <= :before::bigint) from headrace_ended
where state = 'failed' and (:queue::text is null or queue = :queue) and (:task::text is null or task = :task);

-- name: prune_failed
with old as materialized (
    select e.ctid as spot from headrace_ended as e
    where e.state = 'failed' and (:queue::text is null or e.queue = :queue) and (:task::text is null or e.task = :task)
    order by e.finished_us, e.id limit :limit for update skip locked
),
deleted as (delete from headrace_ended as e using old as o where e.ctid = o.spot returning 1)
select count(*) from deleted;
