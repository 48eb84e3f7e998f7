-- Producers: store new jobs, and make due ones ready. :ids and other lists are lists of values, :rows a list of rows.

-- name: draw
-- The next number of the line, see last_insert_id(): all jobs of one operation stand under it, in their order.
replace into headrace_places (slot) values (connection_id());

-- name: drawn
select last_insert_id();

-- name: look
-- The moment, the number just drawn, and for each known queue when its first scheduled job is due. At least one row.
select coalesce(:now, timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))), last_insert_id(), q.name,
    (select s.turn from headrace_jobs as s where s.state = 'scheduled' and s.queue = q.name order by s.turn limit 1)
from (select 1 as one) as always left join headrace_queues as q on q.name in :queues;

-- name: insert
-- What is there already stays as it is: no duplicate is an error. Waits for transactions that hold the same id or key.
-- `reason` comes as blanks: room for what a claim writes, so that no full page of the table has to be split for it.
insert into headrace_jobs (
    id, queue, task, state, turn, place, token, created_us, base_us, due_us, since_us, reason,
    priority, derived, unique_key, held_key, unique_until, unique_us, body
) values :rows
on duplicate key update id = headrace_jobs.id;

-- name: insert_plain
-- The same where priority, unique key and all that goes with it are as they mostly are: a third of the values fewer.
insert into headrace_jobs (
    id, queue, task, state, turn, place, token, created_us, base_us, due_us, since_us, reason, body
) values :rows
on duplicate key update id = headrace_jobs.id;

-- name: entered
-- How many rows that has just added (on connections of ours, which ask for rows that were changed, not found), and
-- whether any id between these two has ended. The ids of one operation are neighbours, so this is one look, not hundreds.
select row_count(),
    exists (select 1 from headrace_gone where id between :first and :last)
    or exists (select 1 from headrace_ended where id between :first and :last);

-- name: found
-- What there is under these ids: 0 a job and its place, 1 a tombstone (until, token), 2 a job that has ended.
select 0, id, place, 0 from headrace_jobs where id in :ids
union all
select 1, id, until_us, token from headrace_gone where id in :ids
union all
select 2, id, 0, 0 from headrace_ended where id in :ids;

-- name: gone_locked
-- The newest, whatever an older snapshot of the caller's transaction shows.
select id, until_us, token from headrace_gone where id in :ids for update;

-- name: ended_locked
select id from headrace_ended where id in :ids for update;

-- name: holders
-- Who holds these unique keys. Rows that the insert above met are locked by it already.
select held_key, id from headrace_jobs where held_key in :keys for update;

-- name: undo
delete from headrace_jobs where id in :ids;

-- name: raise_token
update headrace_jobs set token = :token, since_us = greatest(since_us, :token) where id = :id;

-- name: queues
insert into headrace_queues (name) values :rows on duplicate key update name = headrace_queues.name;

-- name: next_due
select q.name,
    (select s.turn from headrace_jobs as s where s.state = 'scheduled' and s.queue = q.name order by s.turn limit 1)
from headrace_queues as q where q.name in :queues;

-- name: due
-- The earliest due jobs of one queue; those that somebody else promotes at this moment are left to them.
select turn, place, id from headrace_jobs force index (line)
where state = 'scheduled' and queue = :queue and turn <= :now
order by turn, place limit :limit for update skip locked;

-- name: promote
-- A job that becomes due goes to the end of its line.
update headrace_jobs set place = :place, turn = -priority, state = 'ready' where id = :id;
