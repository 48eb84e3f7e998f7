-- Operators look: one job, pages of jobs, counts. Columns of a job stand in the order of `JobView`.

-- name: job
with clock (now) as materialized (
    select coalesce(:now::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint)
)
select id, queue, task, case when state = 'scheduled' and due_us <= now then 'ready' else state end, priority, token,
    created_us, due_us, base_us, null, claimed_us, nullif(worker, ''), reason, unique_key, cancel, trail, body
from headrace_jobs, clock where id = :id
union all
select id, queue, task, state, priority, token,
    created_us, due_us, base_us, finished_us, null, null, reason, unique_key, false, trail, body
from headrace_ended where id = :id;

-- name: ready
-- A page of jobs that are ready or due, in the order of claims, after (:rank, :place). Each queue gives its own first
-- few from the index, so a page costs the same at any depth.
with recursive clock (now) as materialized (
    select coalesce(:now::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint)
),
line (name) as (
    (select j.queue from headrace_jobs as j where j.state = 'ready' order by j.queue limit 1)
    union all
    select (
        select j.queue from headrace_jobs as j where j.state = 'ready' and j.queue > l.name order by j.queue limit 1
    ) from line as l where l.name is not null
),
due_line (name) as (
    (select j.queue from headrace_jobs as j where j.state = 'scheduled' order by j.queue limit 1)
    union all
    select (
        select j.queue from headrace_jobs as j where j.state = 'scheduled' and j.queue > l.name order by j.queue limit 1
    ) from due_line as l where l.name is not null
),
page as (
    (
        select r.* from line as l cross join lateral (
            select j.* from headrace_jobs as j
            where j.queue = l.name and j.state = 'ready' and (-j.priority, j.place) > (:rank::integer, :place::bigint)
                and (:task::text is null or j.task = :task) and (:reason::text is null or j.reason = :reason)
            order by -j.priority, j.place limit :limit
        ) as r
        where :queue::text is null or l.name = :queue
    )
    union all
    (
        select j.* from due_line as l cross join clock as c join headrace_jobs as j
            on j.queue = l.name and j.state = 'scheduled' and j.due_us <= c.now
        where (:queue::text is null or l.name = :queue) and (-j.priority, j.place) > (:rank::integer, :place::bigint)
            and (:task::text is null or j.task = :task) and (:reason::text is null or j.reason = :reason)
        order by -j.priority, j.place limit :limit
    )
)
select id, queue, task, 'ready', priority, token, created_us, due_us, base_us, null::bigint, claimed_us,
    nullif(worker, ''), reason, unique_key, cancel, trail, case when :bodies::boolean then body end, place
from page order by -priority, place limit :limit;

-- name: scheduled
-- A page of jobs that are not yet due.
with clock (now) as materialized (
    select coalesce(:now::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint)
)
select id, queue, task, 'scheduled', priority, token, created_us, due_us, base_us, null::bigint, claimed_us,
    nullif(worker, ''), reason, unique_key, cancel, trail, case when :bodies::boolean then body end, place
from headrace_jobs
where state = 'scheduled' and due_us > (select now from clock) and (:queue::text is null or queue = :queue)
    and (-priority, place) > (:rank::integer, :place::bigint)
    and (:task::text is null or task = :task) and (:reason::text is null or reason = :reason)
order by -priority, place limit :limit;

-- name: running
select id, queue, task, 'running', priority, token, created_us, due_us, base_us, null::bigint, claimed_us,
    nullif(worker, ''), reason, unique_key, cancel, trail, case when :bodies::boolean then body end, place
from headrace_jobs
where state = 'running' and (:queue::text is null or queue = :queue)
    and (-priority, place) > (:rank::integer, :place::bigint)
    and (:task::text is null or task = :task) and (:reason::text is null or reason = :reason)
order by -priority, place limit :limit;

-- name: parked
select id, queue, task, 'parked', priority, token, created_us, due_us, base_us, null::bigint, claimed_us,
    nullif(worker, ''), reason, unique_key, cancel, trail, case when :bodies::boolean then body end, place
from headrace_jobs
where state = 'parked' and (:queue::text is null or queue = :queue)
    and (-priority, place) > (:rank::integer, :place::bigint)
    and (:task::text is null or task = :task) and (:reason::text is null or reason = :reason)
order by -priority, place limit :limit;

-- name: ended
-- A page of failed or kept jobs, newest first, after (:finished_us, :id).
select id, queue, task, state, priority, token, created_us, due_us, base_us, finished_us, null::bigint, null,
    reason, unique_key, false, trail, case when :bodies::boolean then body end
from headrace_ended
where state = :state and (finished_us, id) < (:finished_us::bigint, :id) and (:queue::text is null or queue = :queue)
    and (:task::text is null or task = :task) and (:reason::text is null or reason = :reason)
order by finished_us desc, id desc limit :limit;

-- name: queues
-- Counts by state, each from an index of its own: kind, queue, count, oldest moment. Due jobs count as ready.
with clock (now) as materialized (
    select coalesce(:now::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint)
)
select 'known', name, 0::bigint, null::bigint from headrace_queues
union all
select 'ready', queue, count(*), min(since_us) from headrace_jobs where state = 'ready' group by queue
union all
select 'due', queue, count(*), min(since_us) from headrace_jobs
where state = 'scheduled' and due_us <= (select now from clock) group by queue
union all
select 'scheduled', queue, count(*), null from headrace_jobs
where state = 'scheduled' and due_us > (select now from clock) group by queue
union all
select 'running', queue, count(*), min(claimed_us) from headrace_jobs where state = 'running' group by queue
union all
select 'parked', queue, count(*), null from headrace_jobs where state = 'parked' group by queue
union all
select 'failed', queue, count(*), null from headrace_ended where state = 'failed' group by queue;

-- name: workers
select w.worker, w.lease_until_us,
    (select count(*) from headrace_jobs as j where j.worker = w.worker and j.state = 'running')
from headrace_workers as w order by w.worker;
