-- Rows of other programs under an id that no worker could be given.

-- name: put_aside
-- To the failed jobs, under a name that can be asked for; body and history stay as they were.
insert into headrace_ended (
    id, state, finished_us, keep_until_us, reason, trail,
    queue, task, priority, token, created_us, base_us, due_us, derived, unique_key, unique_until, unique_us, body
)
select :name, 'failed', :now, null, 'unreadable', :trail,
    queue, task, priority, token, created_us, base_us, due_us, derived, unique_key, unique_until, unique_us, body
from headrace_jobs where id = :id
on duplicate key update id = headrace_ended.id;
