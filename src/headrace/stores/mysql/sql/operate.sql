-- Operators act: cancel, replay, edit, forget, prune.

-- name: find
select state, token, cancel, derived from headrace_jobs where id = :id for update;

-- name: finished
select exists (select 1 from headrace_ended where id = :id)
    or exists (select 1 from headrace_gone where id = :id and until_us > :now);

-- name: ask
update headrace_jobs set cancel = 1 where id = :id;

-- name: states
select id, state from headrace_jobs where id in :ids;

-- name: replayable
-- One that failed at :before or later has been replayed since.
select id, case when state = 'failed' and finished_us >= :before then 'failed again' else state end,
    queue, token, unique_key, trail from headrace_ended force index (primary) where id in :ids for update;

-- name: replay
-- The same job again: id, options and unique key. One whose key another job holds stays where it is.
insert into headrace_jobs (
    place, state, turn, token, base_us, due_us, since_us, trail, held_key,
    id, queue, task, priority, created_us, derived, unique_key, unique_until, unique_us, body
)
select :place, 'ready', -e.priority, :token, :now, :now, :token, :trail, :held_key,
    e.id, e.queue, e.task, e.priority, e.created_us, e.derived, e.unique_key, e.unique_until, e.unique_us, e.body
from headrace_ended as e where e.id = :id
on duplicate key update id = headrace_jobs.id;

-- name: replayed
select id, place from headrace_jobs where id in :ids;

-- name: editable
select 1 from headrace_ended force index (primary)
where id = :id and queue = :queue and state = 'failed' and body in (:was, :body) for update;

-- name: edit
update headrace_ended set body = :body, trail = :trail where id = :id;

-- name: ended
select id from headrace_ended force index (primary) where id in :ids for update;

-- name: delete_ended
delete from e using headrace_ended as e force index (primary) where e.id in :ids;

-- name: delete_gone
delete from g using headrace_gone as g force index (primary) where g.id in :ids;

-- name: old_kept
select id from headrace_ended force index (kept)
where keep_until_us <= :now order by keep_until_us, id limit :limit for update skip locked;

-- name: left
-- Whether tombstones, kept jobs, once records or registers are left whose time is over.
select exists (select 1 from headrace_gone where until_us <= :now)
    or exists (select 1 from headrace_ended where keep_until_us <= :now)
    or exists (select 1 from headrace_once where until_us <= :now)
    or exists (select 1 from headrace_registers where until_us <= :now);

-- name: count_failed
-- All failed jobs of a filter, and those that ended before a moment.
select count(*), count(case when finished_us <= :before then 1 end) from headrace_ended
where state = 'failed' and (:queue is null or queue = :queue) and (:task is null or task = :task);

-- name: old_failed
select id from headrace_ended force index (finished)
where state = 'failed' and (:queue is null or queue = :queue) and (:task is null or task = :task)
order by finished_us, id limit :limit for update skip locked;

-- name: old_places
-- Rows of connections that are long gone; one that is still there makes a new one.
delete from headrace_places where place < :before;
