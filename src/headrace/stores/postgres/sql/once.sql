-- Once records: who may take effect under a key, and what the one who did has left. Rows are locked in the order of their
-- keys, and where jobs are locked too, before them. Each is looked up by its key, whatever the statistics: `any` for the
-- reason that settle.sql gives; `offset 0` keeps a look apart.

-- name: take
-- All in one: look at the records of these keys, which are handed over sorted and each once, and make those that are
-- missing. Whether a holder's job runs is seen by the same look as its record, so that the two belong together. Nobody is
-- waited for but those who are just making the same record, since a handler's transaction that ends one may be long.
-- Rows: the moment, how many records were made, and each that was there; `runs`: its job runs under its token.
with clock (now) as materialized (
    select coalesce(:now::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint)
),
claims as materialized (
    select c.*, o.fingerprint as found, o.state, o.owner as holder, o.token as holder_token, o.lease_until_us, o.fence,
        o.until_us, case when o.state in ('done', 'failed') then o.result end as result,
        o.state = 'held' and exists (
            select 1 from headrace_jobs as j where j.id = o.owner and j.token = o.token and j.state || '' = 'running'
            offset 0
        ) as runs
    from unnest(
        :scopes::text[], :keys::text[], :fingerprints::bytea[], :owners::text[], :tokens::bigint[], :leases::bigint[]
    ) with ordinality as c (scope, key, fingerprint, owner, token, lease_us, nth)
    left join headrace_once as o on o.scope = any (array[c.scope, c.scope]) and o.key = any (array[c.key, c.key])
),
made as (
    insert into headrace_once (scope, key, fingerprint, state, owner, token, lease_until_us, fence, until_us)
    select c.scope, c.key, c.fingerprint, 'held', c.owner, c.token, case when c.token = 0 then n.now + c.lease_us else 0 end,
        n.now, n.now + :keep_us::bigint
    from claims as c cross join clock as n where c.fence is null order by c.nth
    on conflict do nothing
    returning 1
)
select n.now, m.made, c.nth, c.found, c.state, c.holder, c.holder_token, c.lease_until_us, c.fence, c.until_us, c.result,
    c.runs
from clock as n cross join (select count(*) as made from made) as m left join claims as c on c.fence is not null;

-- name: replace
-- Take records that were found free, unless somebody has written them since. Answers which. `until_us + 0`: by their keys,
-- not by their time.
with found as materialized (
    select o.ctid as spot, c.*
    from unnest(
        :scopes::text[], :keys::text[], :fingerprints::bytea[], :owners::text[], :tokens::bigint[], :leases::bigint[],
        :fences::bigint[], :old_states::text[], :old_fences::bigint[], :old_leases::bigint[], :old_untils::bigint[]
    ) with ordinality as c (
        scope, key, fingerprint, owner, token, lease_us, fence, old_state, old_fence, old_lease, old_until, nth
    )
    join headrace_once as o on o.scope = any (array[c.scope, c.scope]) and o.key = any (array[c.key, c.key])
    where o.state = c.old_state and o.fence = c.old_fence and o.lease_until_us = c.old_lease and o.until_us + 0 = c.old_until
    order by c.nth for update of o
)
update headrace_once as o set
    fingerprint = f.fingerprint, state = 'held', owner = f.owner, token = f.token,
    lease_until_us = case when f.token = 0 then :now::bigint + f.lease_us else 0 end,
    fence = f.fence, until_us = :now::bigint + :keep_us::bigint, result = null
from found as f where o.ctid = f.spot
returning f.nth;

-- name: owned
-- Which of these claims may end their records: locked until the end of the transaction, so that they stay theirs.
select e.nth
from unnest(:ids::text[], :tokens::bigint[], :scopes::text[], :keys::text[], :fences::bigint[]) with ordinality
    as e (id, token, scope, key, fence, nth)
join headrace_once as o on o.scope = any (array[e.scope, e.scope]) and o.key = any (array[e.key, e.key])
where o.owner = e.id and o.token = e.token and o.fence = e.fence and o.state = 'held'
order by e.scope collate "C", e.key collate "C" for update of o;

-- name: close
-- The end of records that are locked.
update headrace_once as o set state = e.state, result = e.result,
    until_us = e.keep_us + coalesce(:now::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint)
from unnest(:scopes::text[], :keys::text[], :states::text[], :results::bytea[], :keeps::bigint[])
    as e (scope, key, state, result, keep_us)
where o.scope = any (array[e.scope, e.scope]) and o.key = any (array[e.key, e.key]);

-- name: renew
-- Also a lease that is over, while nobody has taken the record.
with clock (now) as materialized (
    select coalesce(:now::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint)
)
update headrace_once as o set lease_until_us = c.now + :lease_us::bigint, until_us = c.now + :keep_us::bigint
from clock as c
where o.scope = :scope and o.key = :key and o.owner = :owner and o.token = 0 and o.state = 'held'
returning true;

-- name: end
-- Of a record that is held by a lease; the answer is the same where that has been done already.
with ended as (
    update headrace_once as o set state = :state, result = :result,
        until_us = :keep_us::bigint + coalesce(:now::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint)
    where o.scope = :scope and o.key = :key and o.owner = :owner and o.token = 0 and o.fence = :fence::bigint
        and o.state = 'held'
    returning 1
)
select exists (select 1 from ended) or exists (
    select 1 from headrace_once as o
    where o.scope = :scope and o.key = :key and o.owner = :owner and o.token = 0 and o.fence = :fence::bigint
        and o.state = :state
);

-- name: look
select state, owner, token, fence, until_us, case when state = 'held' and token = 0 then lease_until_us end, result
from headrace_once where scope = :scope and key = :key;

-- name: prune
-- The rows as one array: a plan that joins them may read them again for each row, and each time skips those that it has
-- locked itself, so that it deletes more than the limit.
delete from headrace_once where ctid = any (array(
    select o.ctid from headrace_once as o where o.until_us <= :now order by o.until_us limit :limit for update skip locked
));
