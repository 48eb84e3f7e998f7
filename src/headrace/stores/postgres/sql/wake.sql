-- Hints that jobs may be waiting. They carry the name of a queue, or nothing, which is for everybody.

-- name: notify
-- Sent in a transaction of its own. A hint need not survive a power cut: its commit waits for no disk.
select set_config('synchronous_commit', 'off', true), pg_notify('headrace_wake', q.name)
from unnest(:queues::text[]) as q (name);

-- name: listen
listen headrace_wake;
