-- Once records. Columns are cast to what we write there, so that what another program wrote stops nobody.

-- name: found
-- The records of these keys: :pairs is a list of [scope, key]. `runs`: its job runs under its token.
select o.scope, o.key, cast(o.fingerprint as blob),
    case when o.state in ('held', 'done', 'failed') then o.state else 'free' end,
    cast(o.owner as blob), cast(o.token as integer), cast(o.lease_until_us as integer), cast(o.fence as integer),
    cast(o.until_us as integer), cast(o.result as blob),
    o.state = 'held' and exists (
        select 1 from headrace_jobs as j where j.id = o.owner and j.token = o.token and j.state = 'running'
    )
from json_each(:pairs) as p
cross join headrace_once as o on o.scope = json_extract(p.value, '$[0]') and o.key = json_extract(p.value, '$[1]');

-- name: running
-- Which of these jobs run, and under which token.
select id, token from headrace_jobs where id in (select value from json_each(:ids) union all select :odd) and state = 'running';

-- name: take
-- Bound by position: scope, key, fingerprint, owner, token, lease, fence, until.
insert into headrace_once (scope, key, fingerprint, state, owner, token, lease_until_us, fence, until_us)
values (?, ?, ?, 'held', ?, ?, ?, ?, ?)
on conflict (scope, key) do update set
    fingerprint = excluded.fingerprint, state = excluded.state, owner = excluded.owner, token = excluded.token,
    lease_until_us = excluded.lease_until_us, fence = excluded.fence, until_us = excluded.until_us, result = null;

-- name: holders
-- Who may end the records of these keys: :pairs is a list of [scope, key].
select o.scope, o.key, cast(o.owner as blob), cast(o.token as integer), cast(o.fence as integer),
    case when o.state in ('held', 'done', 'failed') then o.state else 'free' end, o.rowid
from json_each(:pairs) as p
cross join headrace_once as o on o.scope = json_extract(p.value, '$[0]') and o.key = json_extract(p.value, '$[1]');

-- name: end
-- Bound by position: state, result, until, rowid.
update headrace_once set state = ?, result = ?, until_us = ? where rowid = ?;

-- name: renew
-- Also a lease that is over, while nobody has taken the record.
update headrace_once set lease_until_us = :lease_until_us, until_us = :until_us
where scope = :scope and key = :key and owner = :owner and token = 0 and state = 'held'
returning 1;

-- name: look
select case when state in ('held', 'done', 'failed') then state else 'free' end, cast(owner as text), cast(token as integer),
    cast(fence as integer), cast(until_us as integer),
    case when state = 'held' and token = 0 then cast(lease_until_us as integer) end, cast(result as blob)
from headrace_once where scope = :scope and key = :key;

-- name: prune
delete from headrace_once where rowid in (
    select rowid from headrace_once where until_us <= :now order by until_us limit :limit
);
