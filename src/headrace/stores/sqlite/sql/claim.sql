-- Workers take jobs: claim, and what a claim looks at.

-- name: last
select last_claim from headrace_workers where worker = :worker;

-- name: seen
-- A sign of life. The lease is set, also to an earlier moment: a clock that was set back must not leave one that
-- lasts for hours.
insert into headrace_workers (worker, lease_until_us, last_claim) values (:worker, :until_us, :number)
on conflict (worker) do update set
    lease_until_us = excluded.lease_until_us,
    last_claim = max(last_claim, excluded.last_claim);

-- name: look
-- For each queue: whether jobs are ready, and when the next scheduled one is due. (In SQLite every text is greater than
-- every number: what another program wrote as a due time and is none, is never due.)
select q.key,
    exists (select 1 from headrace_jobs as r where r.queue = q.value and r.state = 'ready'),
    (select s.due_us from headrace_jobs as s where s.queue = q.value and s.state = 'scheduled' and s.due_us <= 9223372036854775807
        order by s.due_us limit 1)
from json_each(:queues) as q;

-- name: take
-- The head of one queue. RETURNING promises no order: the plan sorts by priority and place. Bodies and trails are
-- cast, for a program that writes them as text.
update headrace_jobs set state = 'running', worker = :worker, claim = :number, claimed_us = :now
where place in (
    select place from headrace_jobs where queue = :queue and state = 'ready' order by priority desc, place limit :limit
)
returning -priority, place, held_key is not null and unique_until = 'start',
    id, queue, token, cast(body as blob), cast(trail as blob), created_us, base_us;

-- name: free_started
-- Unique until the start: the key is free from here on.
update headrace_jobs set held_key = null where place in (select value from json_each(:places));

-- name: repeat
-- The answer of a claim whose reply was lost.
select id, queue, token, cast(body as blob), cast(trail as blob), created_us, base_us from headrace_jobs
where worker = :worker and state = 'running' and claim = :number
order by priority desc, place;
