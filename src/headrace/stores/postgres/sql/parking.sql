-- Parked jobs. The index knows the first 200 characters of a reason, and ours have no more.

-- name: unpark
-- Those that are first in line, queue by queue; others' locks are skipped. Place, token and due time are the old ones.
with picked as materialized (
    select p.spot from unnest(:queues::text[]) with ordinality as q (name, nth) cross join lateral (
        select j.ctid as spot from headrace_jobs as j
        where j.queue = q.name and left(j.reason, 200) = left(:reason, 200) and j.reason = :reason and j.state = 'parked'
        order by -j.priority, j.place limit :limit for update skip locked
    ) as p
    limit :limit
)
update headrace_jobs as j set state = 'ready' from picked as p where j.ctid = p.spot
returning 1;

-- name: look
-- The least reason of each queue, then always the next greater one: one look into the index for each. Its jobs are counted
-- along the same index, and only where that is asked for.
with recursive found (queue, reason) as (
    select q.name, (
        select left(j.reason, 200) from headrace_jobs as j where j.queue = q.name and j.state = 'parked'
        order by left(j.reason, 200) limit 1
    )
    from unnest(:queues::text[]) as q (name)
    union all
    select f.queue, (
        select left(j.reason, 200) from headrace_jobs as j
        where j.queue = f.queue and left(j.reason, 200) > f.reason and j.state = 'parked'
        order by left(j.reason, 200) limit 1
    )
    from found as f where f.reason is not null
)
select f.queue, f.reason, case when :counting::boolean then (
    select count(*) from headrace_jobs as j
    where j.queue = f.queue and left(j.reason, 200) = f.reason and j.state = 'parked'
) end
from found as f where f.reason is not null;
