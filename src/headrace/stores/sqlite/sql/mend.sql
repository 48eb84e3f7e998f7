-- Rows that another program wrote and that no worker could be given. SQLite keeps any kind of value in any column, so
-- texts are read as bytes here, and `wrong` names the columns that hold something of another kind than ours.

-- name: running
select place from headrace_jobs where state = 'running';

-- name: heads
-- What a claim would take from one queue.
select place from headrace_jobs where queue = :queue and state = 'ready' order by priority desc, place limit :limit;

-- name: jobs
select place, cast(id as blob), cast(queue as blob), cast(task as blob), cast(worker as blob), cast(unique_key as blob),
    cast(trail as blob),
    case when typeof(id) = 'text' then '' else 'id ' end
    || case when typeof(queue) = 'text' then '' else 'queue ' end
    || case when state <> 'running' or typeof(worker) = 'text' then '' else 'worker ' end
    || case when typeof(token) = 'integer' and token between 0 and :most then '' else 'token ' end
    || case when typeof(created_us) = 'integer' and created_us between 0 and :most then '' else 'created_us ' end
    || case when typeof(base_us) = 'integer' and base_us between 0 and :most then '' else 'base_us ' end
    || case when typeof(claim) = 'integer' then '' else 'claim ' end
    || case when typeof(cancel) = 'integer' then '' else 'cancel ' end
from headrace_jobs where place in (select value from json_each(:places));

-- name: is_taken
select exists (select 1 from headrace_jobs where id = :id) or exists (select 1 from headrace_ended where id = :id);

-- name: put_aside
-- To the failed jobs with its raw body, and with those of its numbers that are some.
insert into headrace_ended (
    id, queue, task, state, priority, token, created_us, base_us, due_us, finished_us, keep_until_us,
    derived, unique_key, unique_until, unique_us, reason, trail, body
)
select :id, :queue, :task, 'failed',
    case when typeof(priority) = 'integer' and priority between -100 and 100 then priority else 0 end,
    case when typeof(token) = 'integer' and token between 0 and :most then token else 0 end,
    case when typeof(created_us) = 'integer' and created_us between 0 and :most then created_us else :now end,
    :now, :now, :now, null, derived = 1, :key, 'end',
    case when typeof(unique_us) = 'integer' and unique_us between 0 and :most then unique_us else 0 end,
    'unreadable', :trail, cast(body as blob)
from headrace_jobs where place = :place;

-- name: remove
delete from headrace_jobs where place = :place;

-- name: workers
-- A worker whose lease ends at no number would never be found dead.
delete from headrace_workers
where typeof(worker) <> 'text' or typeof(lease_until_us) <> 'integer' or typeof(last_claim) <> 'integer'
returning 1;

-- name: gone
-- A tombstone that is over at no moment.
delete from headrace_gone
where id in (select value from json_each(:ids)) and (typeof(until_us) <> 'integer' or typeof(token) <> 'integer')
returning 1;

-- name: ended
select cast(queue as blob), cast(task as blob), cast(unique_key as blob),
    case when typeof(queue) = 'text' then '' else 'queue ' end
    || case when typeof(task) = 'text' then '' else 'task ' end
    || case when typeof(unique_key) in ('text', 'null') then '' else 'unique_key ' end
    || case when typeof(token) = 'integer' and token between 0 and :most then '' else 'token ' end
    || case when typeof(created_us) = 'integer' and created_us between 0 and :most then '' else 'created_us ' end
from headrace_ended where id = :id;

-- name: straighten
update headrace_ended set
    queue = :queue, task = :task, unique_key = :key,
    token = case when typeof(token) = 'integer' and token between 0 and :most then token else 0 end,
    created_us = case when typeof(created_us) = 'integer' and created_us between 0 and :most then created_us else :now end
where id = :id;
