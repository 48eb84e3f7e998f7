-- The one path that ends a claim: out of `running`, to the end or back to the line. Rows are locked in the order in which
-- they are handed over, which plans sort. Tombstones go a few at a time with each settle, so that no upkeep has to delete
-- a million at once; those that somebody else deletes are skipped.
-- Each row is looked up by its id, whatever the statistics. `id = any (array[e.id, e.id])`: where the planner thinks that a
-- table is empty, it would read all of it and compare each row with all claims. It has a way to do so where one id is said
-- to equal the other, but not where it is said to be among some. `state || ''`: no index of running jobs serves.

-- name: succeed
-- Claims that ended well, of jobs that nobody keeps. Answers how many matched, unless all did which,
-- and up to when tombstones are cleared away.
with clock (now) as materialized (
    select coalesce(:now::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint)
),
ended as (
    delete from headrace_jobs as j using unnest(:ids::text[], :tokens::bigint[]) with ordinality as e (id, token, nth)
    where j.id = any (array[e.id, e.id]) and j.token = e.token and j.state || '' = 'running'
    returning j.id, j.token, j.derived, e.nth
),
buried as (
    insert into headrace_gone as g (id, until_us, token)
    select e.id, c.now + case when e.derived then :derived_us::bigint else :random_us::bigint end, e.token
    from ended as e cross join clock as c
    on conflict (id) do update set until_us = excluded.until_us, token = excluded.token
    returning 1
),
forgotten as (
    delete from headrace_gone where ctid = any (array(
        select g.ctid from headrace_gone as g
        where g.until_us > :buried_us::bigint and g.until_us <= (select now from clock) - :margin_us::bigint
        order by g.until_us limit (select 2 * count(*) from buried) for update skip locked
    ))
    returning until_us
)
select n.ended, case when n.ended < cardinality(:ids::text[]) then (select array_agg(nth) from ended) end,
    (select max(until_us) from forgotten)
from (select count(*) as ended from ended) as n;

-- name: succeed_once
-- The same, where claims hold once records, which end with them; a claim whose record is not its own is not ended.
-- The records are locked first. They are written by their keys, not where they were found: that is right also where one
-- has been written between the look and the lock.
with clock (now) as materialized (
    select coalesce(:now::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint)
),
outcomes as materialized (
    select * from unnest(
        :ids::text[], :tokens::bigint[], :scopes::text[], :keys::text[], :fences::bigint[], :states::text[],
        :results::bytea[], :keeps::bigint[]
    ) with ordinality as e (id, token, scope, key, fence, state, result, keep_us, nth)
),
owned as materialized (
    select e.* from outcomes as e
    join headrace_once as o on o.scope = any (array[e.scope, e.scope]) and o.key = any (array[e.key, e.key])
    where o.owner = e.id and o.token = e.token and o.fence = e.fence and o.state = 'held'
    order by e.scope collate "C", e.key collate "C" for update of o
),
ended as (
    delete from headrace_jobs as j
    using (
        select * from owned union all select * from outcomes where fence is null and (select count(*) from owned) >= 0
        order by id
    ) as e
    where j.id = any (array[e.id, e.id]) and j.token = e.token and j.state || '' = 'running'
    returning j.id, j.token, j.derived, e.nth, e.scope, e.key, e.state, e.result, e.keep_us
),
closed as (
    update headrace_once as o set state = e.state, result = e.result, until_us = c.now + e.keep_us
    from ended as e cross join clock as c
    where o.scope = any (array[e.scope, e.scope]) and o.key = any (array[e.key, e.key])
),
buried as (
    insert into headrace_gone as g (id, until_us, token)
    select e.id, c.now + case when e.derived then :derived_us::bigint else :random_us::bigint end, e.token
    from ended as e cross join clock as c
    on conflict (id) do update set until_us = excluded.until_us, token = excluded.token
    returning 1
),
forgotten as (
    delete from headrace_gone where ctid = any (array(
        select g.ctid from headrace_gone as g
        where g.until_us > :buried_us::bigint and g.until_us <= (select now from clock) - :margin_us::bigint
        order by g.until_us limit (select 2 * count(*) from buried) for update skip locked
    ))
    returning until_us
)
select n.ended, case when n.ended < cardinality(:ids::text[]) then (select array_agg(nth) from ended) end,
    (select max(until_us) from forgotten)
from (select count(*) as ended from ended) as n;

-- name: settle
-- Claims that ended in whatever way, all at once; a job that would go back and was asked to cancel ends instead. The
-- token of what goes back rises, so that whoever held the old one can change nothing any more. Answers which matched,
-- and up to when tombstones are cleared away.
with clock (now) as materialized (
    select coalesce(:now::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint)
),
outcomes as materialized (
    select o.*, o.state in ('succeeded', 'failed', 'cancelled', 'expired') as final
    from unnest(
        :ids::text[], :tokens::bigint[], :states::text[], :delays::bigint[], :keeps::bigint[], :reasons::text[],
        :trails::bytea[]
    ) with ordinality as o (id, token, state, delay_us, keep_us, reason, trail, nth)
),
ended as (
    delete from headrace_jobs as j using outcomes as o
    where j.id = any (array[o.id, o.id]) and j.token = o.token and j.state || '' = 'running' and (o.final or j.cancel)
    returning j.id, j.queue, j.task, j.priority, j.token, j.created_us, j.base_us, j.due_us, j.derived, j.unique_key,
        j.unique_until, j.unique_us, j.body, coalesce(o.trail, j.trail) as trail,
        case when o.final then o.state else 'cancelled' end as state, o.keep_us,
        case when o.final then o.reason else 'cancelled' end as reason, o.nth
),
buried as (
    insert into headrace_gone as g (id, until_us, token)
    select e.id, c.now + case when e.derived then :derived_us::bigint else :random_us::bigint end, e.token
    from ended as e cross join clock as c
    on conflict (id) do update set until_us = excluded.until_us, token = excluded.token
    returning 1
),
kept as (
    insert into headrace_ended (
        id, queue, task, state, priority, token, created_us, base_us, due_us, finished_us, keep_until_us,
        unique_us, derived, unique_key, unique_until, reason, trail, body
    )
    select e.id, e.queue, e.task, e.state, e.priority, e.token, e.created_us, e.base_us, e.due_us, c.now,
        case when e.state <> 'failed' then c.now + e.keep_us end,
        e.unique_us, e.derived, e.unique_key, e.unique_until, e.reason, e.trail, e.body
    from ended as e cross join clock as c where e.state = 'failed' or e.keep_us > 0
    on conflict (id) do nothing
),
back as (
    update headrace_jobs as j set
        state = o.state,
        token = greatest(least(j.token, 9223372036854775806) + 1, c.now),
        due_us = case when o.state = 'ready' then j.due_us else c.now + o.delay_us end,
        since_us = greatest(
            least(j.token, 9223372036854775806) + 1, c.now,
            case when o.state = 'ready' then j.due_us else c.now + o.delay_us end
        ),
        reason = o.reason, trail = coalesce(o.trail, j.trail), worker = '', claim = 0, claimed_us = null
    from outcomes as o cross join clock as c
    where j.id = any (array[o.id, o.id]) and j.token = o.token and j.state || '' = 'running' and not (o.final or j.cancel)
    returning o.nth
),
forgotten as (
    delete from headrace_gone where ctid = any (array(
        select g.ctid from headrace_gone as g
        where g.until_us > :buried_us::bigint and g.until_us <= (select now from clock) - :margin_us::bigint
        order by g.until_us limit (select 2 * count(*) from buried) for update skip locked
    ))
    returning until_us
)
select nth, null::bigint from ended
union all select nth, null::bigint from back
union all select null::bigint, max(until_us) from forgotten;

-- name: park
-- Claims that go back to wait for something, with nothing else to say: the same as above, at less cost. A job that was
-- asked to cancel is left out. Answers which matched.
with clock (now) as materialized (
    select coalesce(:now::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint)
)
update headrace_jobs as j set
    state = 'parked',
    token = greatest(least(j.token, 9223372036854775806) + 1, c.now),
    due_us = c.now,
    since_us = greatest(least(j.token, 9223372036854775806) + 1, c.now),
    reason = o.reason, worker = '', claim = 0, claimed_us = null
from unnest(:ids::text[], :tokens::bigint[], :reasons::text[]) with ordinality as o (id, token, reason, nth)
cross join clock as c
where j.id = any (array[o.id, o.id]) and j.token = o.token and j.state || '' = 'running' and not j.cancel
returning o.nth;

-- name: standing
-- The tokens under which the store knows of a job, and whether it is running under that one.
select token, state = 'running' from headrace_jobs where id = :id
union all (select token, false from headrace_ended where id between :id and :id order by id)
union all select token, false from headrace_gone where id = :id;

-- name: unlocked
-- The job, unless a transaction that is open has ended it.
select 1 from headrace_jobs where id = :id and token = :token::bigint and state || '' = 'running' for update skip locked;
