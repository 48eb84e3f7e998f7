-- Operators look: one job, pages of jobs, counts. Columns of a job stand in the order of `JobView`. The reason of a job that
-- has not run yet is blanks.

-- name: job
select id, queue, task, case when state = 'scheduled' and turn <= :now then 'ready' else state end, priority, token,
    created_us, due_us, base_us, null, claimed_us, worker, rtrim(reason), unique_key, cancel, trail, body
from headrace_jobs where id = :id
union all
select id, queue, task, state, priority, token,
    created_us, due_us, base_us, finished_us, null, null, reason, unique_key, 0, trail, body
from headrace_ended where id = :id;

-- name: ready
-- The first few ready jobs of one queue in the order of claims, after (:turn, :place).
select id, queue, task, 'ready', priority, token, created_us, due_us, base_us, null, claimed_us, worker,
    rtrim(reason), unique_key, cancel, trail, case when :bodies then body end, -priority, place
from headrace_jobs force index (line)
where state = 'ready' and queue = :queue and turn >= :turn and (turn > :turn or place > :place)
    and (:task is null or task = :task) and (:reason is null or rtrim(reason) = :reason)
order by turn, place limit :limit;

-- name: due
-- Those of one queue that are due, though nobody has made them ready yet.
select id, queue, task, 'ready', priority, token, created_us, due_us, base_us, null, claimed_us, worker,
    rtrim(reason), unique_key, cancel, trail, case when :bodies then body end, -priority, place
from headrace_jobs force index (line)
where state = 'scheduled' and queue = :queue and turn <= :now
    and -priority >= :turn and (-priority > :turn or place > :place)
    and (:task is null or task = :task) and (:reason is null or rtrim(reason) = :reason)
order by -priority, place limit :limit;

-- name: scheduled
-- A page of jobs that are not yet due.
select id, queue, task, 'scheduled', priority, token, created_us, due_us, base_us, null, claimed_us, worker,
    rtrim(reason), unique_key, cancel, trail, case when :bodies then body end, -priority, place
from headrace_jobs
where state = 'scheduled' and turn > :now and (:queue is null or queue = :queue)
    and -priority >= :turn and (-priority > :turn or place > :place)
    and (:task is null or task = :task) and (:reason is null or rtrim(reason) = :reason)
order by -priority, place limit :limit;

-- name: other
-- A page of running or parked jobs.
select id, queue, task, state, priority, token, created_us, due_us, base_us, null, claimed_us, worker,
    rtrim(reason), unique_key, cancel, trail, case when :bodies then body end, -priority, place
from headrace_jobs
where state = :state and (:queue is null or queue = :queue)
    and -priority >= :turn and (-priority > :turn or place > :place)
    and (:task is null or task = :task) and (:reason is null or rtrim(reason) = :reason)
order by -priority, place limit :limit;

-- name: ended
-- A page of failed or kept jobs, newest first, after (:finished_us, :id).
select id, queue, task, state, priority, token, created_us, due_us, base_us, finished_us, null, null,
    reason, unique_key, 0, trail, case when :bodies then body end
from headrace_ended force index (finished)
where state = :state and finished_us <= :finished_us and (finished_us < :finished_us or :first or id < :id)
    and (:queue is null or queue = :queue)
    and (:task is null or task = :task) and (:reason is null or reason = :reason)
order by finished_us desc, id desc limit :limit;

-- name: waiting_queues
-- Those that have been noted, and those of jobs that came in somebody else's transaction, which notes none.
select name from headrace_queues
union select queue from headrace_jobs where state = 'ready' group by queue
union select queue from headrace_jobs where state = 'scheduled' group by queue
order by name;

-- name: queues
-- Counts by state, each from an index: kind, queue, count, oldest moment. Due jobs count as ready. One statement, so that a
-- job that is on its way from one state to another is counted once.
select 'known', name, 0, null from headrace_queues
union all
select 'ready', queue, count(*), min(since_us) from headrace_jobs where state = 'ready' group by queue
union all
select 'due', queue, count(*), min(since_us) from headrace_jobs where state = 'scheduled' and turn <= :now group by queue
union all
select 'scheduled', queue, count(*), null from headrace_jobs where state = 'scheduled' and turn > :now group by queue
union all
select 'running', queue, count(*), min(claimed_us) from headrace_jobs where state = 'running' group by queue
union all
select 'parked', queue, count(*), null from headrace_jobs where state = 'parked' group by queue
union all
select 'failed', queue, count(*), null from headrace_ended where state = 'failed' group by queue;

-- name: workers
select worker, lease_until_us,
    (select count(*) from headrace_jobs as j where j.worker = w.worker and j.state = 'running')
from headrace_workers as w order by worker;
