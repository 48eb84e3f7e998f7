-- The one path that ends a claim: out of `running`, to the end or back to the line.

-- name: running
-- Ids are a JSON list; :odd is one that JSON cannot carry, or null. So it is wherever ids are asked for.
select j.id, j.place, j.token, j.cancel
from (select value from json_each(:ids) union all select :odd) as e
cross join headrace_jobs as j on j.id = e.value and j.state = 'running';

-- name: bury
-- Tombstones for jobs that end.
insert into headrace_gone (id, until_us, token)
select id, :now + case when derived then :derived_us else :random_us end, token
from headrace_jobs where place in (select value from json_each(:places))
on conflict (id) do update set until_us = excluded.until_us, token = excluded.token;

-- name: keep
-- Failed jobs, and others for as long as was asked. Bound by position. (A program that put a kept job back without us may
-- have left its row here: the last ending stands.)
insert or replace into headrace_ended (
    state, finished_us, keep_until_us, reason, trail,
    id, queue, task, priority, token, created_us, base_us, due_us, derived, unique_key, unique_until, unique_us, body
)
select ?, ?, ?, ?, coalesce(?, trail),
    id, queue, task, priority, token, created_us, base_us, due_us, derived, unique_key, unique_until, unique_us, body
from headrace_jobs where place = ?;

-- name: delete
delete from headrace_jobs where place in (select value from json_each(:places));

-- name: back
-- Waiting again, under a new token. Bound by position: state, token, due, token, due, reason, trail, place, where a due
-- or trail of null leaves it unchanged.
update headrace_jobs set
    state = ?, token = ?, due_us = coalesce(?, due_us), since_us = max(?, coalesce(?, due_us)),
    reason = ?, trail = coalesce(?, trail), worker = null, claim = 0, claimed_us = null
where place = ?;

-- name: standing
-- The tokens under which the store knows of a job, and whether it is running under that one.
select token, state = 'running' from headrace_jobs where id = :id
union all select token, 0 from headrace_ended where id = :id
union all select token, 0 from headrace_gone where id = :id;

-- name: forget_gone
-- Tombstones go a few at a time with each settle, so that no upkeep has to delete a million at once.
delete from headrace_gone where id in (
    select id from headrace_gone where until_us <= :before order by until_us limit :limit
);
