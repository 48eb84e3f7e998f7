-- Operators act: cancel, replay, edit, forget, prune.

-- name: find
select place, state = 'running' from headrace_jobs where id = :id;

-- name: finished
select exists (select 1 from headrace_ended where id = :id)
    or exists (select 1 from headrace_gone where id = :id and until_us > :now);

-- name: ask
update headrace_jobs set cancel = 1 where place = :place;

-- name: states
select id, case when state in ('ready', 'scheduled', 'parked') then state else 'running' end
from headrace_jobs where id in (select value from json_each(:ids) union all select :odd);

-- name: replayable
-- One that failed at :before or later has been replayed since.
select id, case when state = 'failed' and finished_us >= :before then 'failed again'
    when state in ('failed', 'succeeded', 'cancelled') then state else 'expired' end, queue, token, unique_key,
    cast(trail as blob)
from headrace_ended where id in (select value from json_each(:ids) union all select :odd);

-- name: replay
-- The same job again: id, options and unique key. Bound by position: place, token, now, now, token, trail, id.
insert into headrace_jobs (
    place, state, token, base_us, due_us, since_us, trail, held_key,
    id, queue, task, priority, created_us, derived, unique_key, unique_until, unique_us, body
)
select ?, 'ready', ?, ?, ?, ?, ?, unique_key,
    id, queue, task, priority, created_us, derived, unique_key, unique_until, unique_us, body
from headrace_ended where id = ?;

-- name: edit
-- Bodies are cast, for a program that writes them as text.
update headrace_ended set body = :body, trail = :trail
where id = :id and queue = :queue and state = 'failed' and cast(body as blob) in (:was, :body)
returning 1;

-- name: delete_ended
delete from headrace_ended where id in (select value from json_each(:ids) union all select :odd) returning id;

-- name: delete_gone
delete from headrace_gone where id in (select value from json_each(:ids) union all select :odd);

-- name: prune_gone
delete from headrace_gone where id in (select id from headrace_gone where until_us <= :now order by until_us limit :limit);

-- name: prune_kept
delete from headrace_ended where id in (
    select id from headrace_ended
    where keep_until_us is not null and keep_until_us <= :now order by keep_until_us, id limit :limit
);

-- name: left
-- Whether tombstones, kept jobs, once records or registers are left whose time is over.
select exists (select 1 from headrace_gone where until_us <= :now)
    or exists (select 1 from headrace_ended where keep_until_us is not null and keep_until_us <= :now)
    or exists (select 1 from headrace_once where until_us <= :now)
    or exists (select 1 from headrace_registers where until_us <= :now);

-- name: count_failed
-- All failed jobs of a filter, and those that ended before a moment.
select count(*), coalesce(sum(finished_us <= :before), 0) from headrace_ended
where state = 'failed' and (:queue is null or queue = :queue) and (:task is null or task = :task);

-- name: prune_failed
delete from headrace_ended where id in (
    select id from headrace_ended
    where state = 'failed' and (:queue is null or queue = :queue) and (:task is null or task = :task)
    order by finished_us, id limit :limit
);
