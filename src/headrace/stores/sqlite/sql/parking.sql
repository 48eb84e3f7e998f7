-- Parked jobs.

-- name: unpark
-- Those that are first in line. Their place, token and due time are the old ones.
update headrace_jobs set state = 'ready' where place in (
    select place from headrace_jobs where queue = :queue and reason = :reason and state = 'parked'
    order by priority desc, place limit :limit
)
returning 1;

-- name: look
-- The least reason of each queue, then always the next greater one: one look into the index for each. Its jobs are counted
-- there, and only where that is asked for.
with recursive found (queue, reason) as (
    select q.value, (select min(j.reason) from headrace_jobs as j where j.queue = q.value and j.state = 'parked')
    from json_each(:queues) as q
    union all
    select f.queue, (
        select min(j.reason) from headrace_jobs as j
        where j.queue = f.queue and j.reason > f.reason and j.state = 'parked'
    )
    from found as f where f.reason is not null
)
select f.queue, cast(f.reason as blob), case when :counting then (
    select count(*) from headrace_jobs as j where j.queue = f.queue and j.reason = f.reason and j.state = 'parked'
) end
from found as f where typeof(f.reason) = 'text';
