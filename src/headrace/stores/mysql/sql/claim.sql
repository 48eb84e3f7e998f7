-- Workers take jobs: claim, and what a claim looks at.

-- name: look
-- The moment, the worker's last claim before it was seen, and for each queue whether jobs are ready and when the next scheduled one is due.
-- :queues is a JSON list of names in hexadecimal digits. Whether jobs are ready is not asked of :passed: it may mean to
-- walk over dead rows by the thousand.
select coalesce(:now, timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))),
    (select w.previous_claim from headrace_workers as w where w.worker = :worker),
    q.position - 1,
    case when unhex(q.name) in :passed then 1
        else exists (select 1 from headrace_jobs as r where r.state = 'ready' and r.queue = unhex(q.name)) end,
    (select s.turn from headrace_jobs as s where s.state = 'scheduled' and s.queue = unhex(q.name) order by s.turn limit 1)
from json_table(:queues, '$[*]' columns (position for ordinality, name varchar(2000) path '$')) as q
order by q.position;

-- name: seen
-- A sign of life. The lease is set, also to an earlier moment: a clock that was set back must not leave one that
-- lasts for hours. Of two claims of one worker the later waits here, and sees the number of the other.
insert into headrace_workers (worker, lease_until_us, last_claim, previous_claim)
values (:worker, coalesce(:now, timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))) + :lease_us, :number, 0)
on duplicate key update
    lease_until_us = coalesce(:now, timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))) + :lease_us,
    previous_claim = last_claim, last_claim = greatest(last_claim, :number);

-- name: take
-- The head of one queue, without those that other claims have in their hands.
select id, queue, token, body, trail, created_us, base_us, derived, turn, place from headrace_jobs force index (line)
where state = 'ready' and queue = :queue order by turn, place limit :limit for update skip locked;

-- name: take_after
-- The same from a place on, within one turn.
select id, queue, token, body, trail, created_us, base_us, derived, turn, place from headrace_jobs force index (line)
where state = 'ready' and queue = :queue and turn = :turn and place > :place
order by turn, place limit :limit for update skip locked;

-- name: more
-- The moment, and whether jobs are ready behind a place in their queue.
select coalesce(:now, timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))),
    exists (
        select 1 from headrace_jobs force index (line)
        where state = 'ready' and queue = :queue and turn = :turn and place > :place
    )
    or exists (
        select 1 from headrace_jobs force index (line) where state = 'ready' and queue = :queue and turn > :turn
    );

-- name: mark
-- Unique until the start: the key is free from here on. The blanks of a job that has not run yet make room for the rest.
update headrace_jobs force index (primary)
set state = 'running', worker = :worker, claim = :number, claimed_us = :now, reason = rtrim(reason),
    held_key = case when unique_until = 'start' then null else held_key end
where id in :ids;

-- name: repeat
-- The answer of a claim whose reply was lost.
select id, queue, token, body, trail, created_us, base_us, derived, turn, place from headrace_jobs
where worker = :worker and state = 'running' and claim = :number
order by turn, place;
