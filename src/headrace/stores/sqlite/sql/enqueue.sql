-- Producers: store new jobs, and make due ones ready.

-- name: known
-- Which of these ids are jobs, waiting, running or kept.
select id from headrace_jobs where id in (select value from json_each(:ids))
union all
select id from headrace_ended where id in (select value from json_each(:ids));

-- name: gone
-- Which of these ids have ended; a tombstone whose time is over still says how far its token had grown.
select id, until_us, token from headrace_gone where id in (select value from json_each(:ids));

-- name: holders
-- Who holds these unique keys: :keys is a list of [queue, key]. The holder may be a row whose id is no text.
select j.queue, j.held_key, cast(j.id as blob)
from json_each(:keys) as k
cross join headrace_jobs as j on j.queue = json_extract(k.value, '$[0]') and j.held_key = json_extract(k.value, '$[1]');

-- name: holder
-- The same for one key.
select cast(id as blob) from headrace_jobs where queue = :queue and held_key = :key;

-- name: places
-- Take :count places at the end of the line; answers the last of them. A program that enqueues without us lets SQLite
-- choose a place, which is the one after the last.
update headrace_meta
set value = max(value, coalesce((select max(place) from headrace_jobs where place < 4611686018427387904), 0)) + :count
where name = 'place' returning value;

-- name: queues
insert into headrace_queues (name) select value from json_each(:queues) where true on conflict do nothing;

-- name: insert
-- Bound by position: many rows at once.
insert into headrace_jobs (
    place, id, queue, task, state, priority, token, created_us, base_us, due_us, since_us,
    derived, unique_key, held_key, unique_until, unique_us, body
) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: due
-- The earliest due jobs of one queue.
select due_us, place from headrace_jobs
where queue = :queue and state = 'scheduled' and due_us <= :now
order by due_us, place limit :limit;

-- name: next_due
-- When the first scheduled job of each queue is due.
select q.key, (
    select j.due_us from headrace_jobs as j
    where j.queue = q.value and j.state = 'scheduled' and j.due_us <= 9223372036854775807 order by j.due_us limit 1
)
from json_each(:queues) as q;

-- name: promote
-- A job that becomes due goes to the end of its line. Bound by position: new place, old place.
update headrace_jobs set place = ?, state = 'ready' where place = ?;
