-- Operators look: one job, pages of jobs, counts. Columns of a job stand in the order of `JobView`. Trails and bodies
-- are cast, for a program that writes them as text.

-- name: job
select id, queue, task, case when state = 'scheduled' and due_us <= :now then 'ready' else state end, priority, token,
    created_us, due_us, base_us, null, claimed_us, worker, reason, unique_key, cancel, cast(trail as blob), cast(body as blob)
from headrace_jobs where id = :id
union all
select id, queue, task, state, priority, token,
    created_us, due_us, base_us, finished_us, null, null, reason, unique_key, 0, cast(trail as blob), cast(body as blob)
from headrace_ended where id = :id;

-- name: ready
-- A page of jobs that are ready or due, in the order of claims, after (:priority, :place). Each queue gives its own
-- first few from the index, so a page costs the same at any depth.
with page (place) as (
    select j.place from headrace_queues as q cross join headrace_jobs as j on j.place in (
        select r.place from headrace_jobs as r
        where r.queue = q.name and r.state = 'ready'
            and r.priority <= :priority and (r.priority < :priority or r.place > :place)
            and (:task is null or r.task = :task) and (:reason is null or r.reason = :reason)
        order by r.priority desc, r.place limit :limit
    )
    where :queue is null or q.name = :queue
    union all
    select j.place from headrace_queues as q cross join headrace_jobs as j
        on j.queue = q.name and j.state = 'scheduled' and j.due_us <= :now
    where (:queue is null or q.name = :queue)
        and j.priority <= :priority and (j.priority < :priority or j.place > :place)
        and (:task is null or j.task = :task) and (:reason is null or j.reason = :reason)
)
select id, queue, task, 'ready', priority, token, created_us, due_us, base_us, null, claimed_us, worker,
    reason, unique_key, cancel, cast(trail as blob), case when :bodies then cast(body as blob) end, place
from headrace_jobs where place in (select place from page)
order by priority desc, place limit :limit;

-- name: scheduled
-- A page of jobs that are not yet due.
select j.id, j.queue, j.task, 'scheduled', j.priority, j.token, j.created_us, j.due_us, j.base_us, null, j.claimed_us,
    j.worker, j.reason, j.unique_key, j.cancel, cast(j.trail as blob), case when :bodies then cast(j.body as blob) end, j.place
from headrace_queues as q cross join headrace_jobs as j
    on j.queue = q.name and j.state = 'scheduled' and j.due_us > :now
where (:queue is null or q.name = :queue)
    and j.priority <= :priority and (j.priority < :priority or j.place > :place)
    and (:task is null or j.task = :task) and (:reason is null or j.reason = :reason)
order by j.priority desc, j.place limit :limit;

-- name: running
select id, queue, task, 'running', priority, token, created_us, due_us, base_us, null, claimed_us, worker,
    reason, unique_key, cancel, cast(trail as blob), case when :bodies then cast(body as blob) end, place
from headrace_jobs
where state = 'running' and (:queue is null or queue = :queue)
    and priority <= :priority and (priority < :priority or place > :place)
    and (:task is null or task = :task) and (:reason is null or reason = :reason)
order by priority desc, place limit :limit;

-- name: parked
select id, queue, task, 'parked', priority, token, created_us, due_us, base_us, null, claimed_us, worker,
    reason, unique_key, cancel, cast(trail as blob), case when :bodies then cast(body as blob) end, place
from headrace_jobs
where state = 'parked' and (:queue is null or queue = :queue)
    and priority <= :priority and (priority < :priority or place > :place)
    and (:task is null or task = :task) and (:reason is null or reason = :reason)
order by priority desc, place limit :limit;

-- name: ended
-- A page of failed or kept jobs, newest first, after (:finished_us, :id).
select id, queue, task, state, priority, token, created_us, due_us, base_us, finished_us, null, null,
    reason, unique_key, 0, cast(trail as blob), case when :bodies then cast(body as blob) end
from headrace_ended
where state = :state and (finished_us, id) < (:finished_us, :id) and (:queue is null or queue = :queue)
    and (:task is null or task = :task) and (:reason is null or reason = :reason)
order by finished_us desc, id desc limit :limit;

-- name: queues
select name from headrace_queues order by name;

-- name: count_ready
select queue, count(*), min(since_us) from headrace_jobs where state = 'ready' group by queue;

-- name: count_scheduled
select queue, count(*), sum(due_us <= :now), min(case when due_us <= :now then since_us end)
from headrace_jobs where state = 'scheduled' group by queue;

-- name: count_running
select queue, count(*), min(claimed_us) from headrace_jobs where state = 'running' group by queue;

-- name: count_parked
select queue, count(*) from headrace_jobs where state = 'parked' group by queue;

-- name: count_failed
select queue, count(*) from headrace_ended where state = 'failed' group by queue;

-- name: workers
select worker, lease_until_us,
    (select count(*) from headrace_jobs as j where j.worker = w.worker and j.state = 'running')
from headrace_workers as w order by worker;
