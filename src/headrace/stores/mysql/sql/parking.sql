-- Parked jobs. Their rows in `parked` are an index that is kept by hand: see the migration.

-- name: enter
-- Of those of these jobs that have just been parked.
replace into headrace_parked (id, queue, reason, turn, place)
select id, queue, reason, turn, place from headrace_jobs force index (primary) where id in :ids and state = 'parked';

-- name: leave
delete from p using headrace_parked as p force index (primary) where p.id in :ids;

-- name: first
-- Those that are first in line; others' are skipped.
select id from headrace_parked force index (line)
where queue = :queue and reason = :reason order by turn, place limit :limit for update skip locked;

-- name: lock
-- Those that are parked for this indeed. One that somebody is cancelling is left.
select id from headrace_jobs force index (primary)
where id in :ids and state = 'parked' and queue = :queue and reason = :reason for update skip locked;

-- name: there
-- The same, also those that others have locked.
select id from headrace_jobs force index (primary)
where id in :ids and state = 'parked' and queue = :queue and reason = :reason;

-- name: back
-- Place, token and due time are the old ones.
update headrace_jobs force index (primary) set state = 'ready', turn = -priority where id in :ids;

-- name: least
-- The least reason of each of these queues.
select unhex(q.name), (
    select p.reason from headrace_parked as p force index (line) where p.queue = unhex(q.name) order by p.reason limit 1
)
from json_table(:queues, '$[*]' columns (name varchar(2000) path '$')) as q;

-- name: next
-- The next greater one of a queue: one look into the index, while a list of all would depend on when statistics were taken.
select reason from headrace_parked force index (line)
where queue = :queue and reason > :reason order by reason limit 1;

-- name: count
select count(*) from headrace_parked force index (line) where queue = :queue and reason = :reason;
