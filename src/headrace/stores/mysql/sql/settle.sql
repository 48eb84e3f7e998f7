-- The one path that ends a claim: out of `running`, to the end or back to the line.

-- name: savepoint
savepoint headrace_finish;

-- name: finish
-- Claims of jobs that nobody keeps. Whether all of them matched is asked next.
delete from j using headrace_jobs as j force index (primary) where (j.id, j.token) in :claims and j.state = 'running';

-- name: finished
-- How many did, and the moment.
select row_count(), coalesce(:now, timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)));

-- name: unfinish
rollback to savepoint headrace_finish;

-- name: running
-- The jobs whose claims may end, locked, and the moment.
select coalesce(:now, timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))), id, token, cancel, derived
from headrace_jobs force index (primary)
where id in :ids and state = 'running' for update;

-- name: bury
-- Tombstones for jobs that end.
replace into headrace_gone (id, until_us, token) values :rows;

-- name: keep
-- Failed jobs, and others for as long as was asked.
replace into headrace_ended (
    state, finished_us, keep_until_us, reason, trail,
    id, queue, task, priority, token, created_us, base_us, due_us, derived, unique_key, unique_until, unique_us, body
)
select :state, :now, :keep_until_us, :reason, coalesce(:trail, trail),
    id, queue, task, priority, token, created_us, base_us, due_us, derived, unique_key, unique_until, unique_us, body
from headrace_jobs where id = :id;

-- name: delete
delete from j using headrace_jobs as j force index (primary) where j.id in :ids;

-- name: back
-- Waiting again, under a new token. A due time or trail of null leaves it unchanged.
update headrace_jobs set
    state = :state, token = :token, due_us = coalesce(:due_us, due_us), since_us = greatest(:token, due_us),
    turn = case when :state = 'scheduled' then due_us else -priority end,
    reason = :reason, trail = coalesce(:trail, trail), worker = null, claim = 0, claimed_us = null
where id = :id;

-- name: park
-- Claims that go back to wait for one thing, with nothing else to say. The columns are set from left to right: `since_us`
-- by the new token. Their ids are named once more, since MariaDB reads all jobs for a list of but one pair. Whether all of
-- them matched is asked next.
update headrace_jobs force index (primary) set
    state = 'parked',
    due_us = coalesce(:now, timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))),
    token = greatest(least(token, :most - 1) + 1, due_us), since_us = token,
    turn = -priority, reason = :reason, worker = null, claim = 0, claimed_us = null
where id in :ids and (id, token) in :claims and state = 'running' and cancel = 0;

-- name: old_gone
-- Tombstones go a few at a time, so that no upkeep has to delete a million at once; each is taken by one transaction.
select id, until_us from headrace_gone force index (until_us)
where until_us >= :after and until_us <= :before order by until_us limit :limit for update skip locked;

-- name: forget_gone
delete from g using headrace_gone as g force index (primary) where g.id in :ids;

-- name: standing
-- The tokens under which the store knows of a job, and whether it is running under that one.
select token, state = 'running' from headrace_jobs where id = :id
union all select token, 0 from headrace_ended where id = :id
union all select token, 0 from headrace_gone where id = :id;

-- name: unlocked
-- The job, unless a transaction that is open has ended it.
select 1 from headrace_jobs force index (primary)
where id = :id and token = :token and state = 'running' for update skip locked;
