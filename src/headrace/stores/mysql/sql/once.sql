-- Once records. :places is a list of (scope, key), in their order: whoever locks several does it in that order.

-- name: look
-- The moment, the records as they were last committed, and whether their jobs run under their tokens. Nobody is waited
-- for: whoever has a record may have completed its job in a transaction that stays open.
select coalesce(:now, timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))),
    null, null, null, null, null, null, null, null, null, null, 0
union all
select 0, o.scope, o.`key`, o.fingerprint, o.state, o.owner, o.token, o.lease_until_us, o.fence, o.until_us, o.result,
    j.id is not null
from headrace_once as o force index (primary)
left join headrace_jobs as j force index (primary) on j.id = o.owner and j.token = o.token and j.state = 'running'
where (o.scope, o.`key`) in :places;

-- name: enter
-- New records. What is there already stays as it is, and is locked.
insert into headrace_once (scope, fingerprint, state, owner, token, lease_until_us, fence, until_us, `key`) values :rows
on duplicate key update scope = headrace_once.scope;

-- name: entered
-- How many of them are new (on connections of ours, which ask for rows that were changed, not found).
select row_count();

-- name: locked
-- Those that were there, in their newest state.
select scope, `key`, fingerprint, state, owner, token, lease_until_us, fence, until_us, result
from headrace_once force index (primary) where (scope, `key`) in :places for update;

-- name: running
-- Which of these jobs run, and under which token. Without a lock: who ends a job locks it before its record.
select id, token from headrace_jobs force index (primary) where id in :ids and state = 'running';

-- name: take
-- Records that are locked change hands.
replace into headrace_once (scope, fingerprint, state, owner, token, lease_until_us, fence, until_us, `key`) values :rows;

-- name: close
-- The ends of records, in one statement, where they are held by those who end them. `state` is set last: the others look
-- at it. MySQL would rather have an alias than values(), but neither MariaDB nor MySQL before 8.0.19 knows that; what it
-- warns of goes unheard, since another statement follows in the same packet.
insert into headrace_once (scope, owner, token, fence, state, until_us, `key`, result) values :rows
on duplicate key update
    result = case
        when headrace_once.owner = values(owner) and headrace_once.token = values(token)
            and headrace_once.fence = values(fence) and headrace_once.state = 'held' then values(result)
        else headrace_once.result end,
    until_us = case
        when headrace_once.owner = values(owner) and headrace_once.token = values(token)
            and headrace_once.fence = values(fence) and headrace_once.state = 'held' then values(until_us)
        else headrace_once.until_us end,
    state = case
        when headrace_once.owner = values(owner) and headrace_once.token = values(token)
            and headrace_once.fence = values(fence) and headrace_once.state = 'held' then values(state)
        else headrace_once.state end;

-- name: closed
-- Twice as many as were given where each of them was held like that: a row that was changed counts 2, a new one 1.
select row_count();

-- name: holders
-- Who may end the records of these keys, whatever an older snapshot of a caller's transaction shows.
select scope, `key`, owner, token, fence, state
from headrace_once force index (primary) where (scope, `key`) in :places for update;

-- name: end
-- One that is locked and held.
update headrace_once set state = :state, result = :result, until_us = :until_us where scope = :scope and `key` = :key;

-- name: renew
update headrace_once set lease_until_us = :lease_until_us, until_us = :until_us where scope = :scope and `key` = :key;

-- name: record
select state, owner, token, fence, until_us, lease_until_us, result from headrace_once where scope = :scope and `key` = :key;

-- name: old
-- Records whose time is over; those that somebody is taking are left.
select scope, `key` from headrace_once force index (until_us)
where until_us <= :now order by until_us limit :limit for update skip locked;

-- name: forget
delete from o using headrace_once as o force index (primary) where (o.scope, o.`key`) in :places;
