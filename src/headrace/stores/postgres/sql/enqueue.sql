-- Producers: store new jobs, and make due ones ready. Ids are looked up one by one, whatever the statistics: `any` for the
-- reason that settle.sql gives; `order by e.id` wants the index by id, not one that has the ids among others; `offset 0`
-- keeps a look apart.

-- name: one
-- One job without a unique key, where nothing is in its way: no jobs that are due and go first, and nothing that was ever
-- known by its id. Then a row comes back; else nothing is done, and `store` finds out. It is all that most enqueues need,
-- and costs a third of `store`.
insert into headrace_jobs (id, queue, task, state, priority, token, created_us, base_us, due_us, since_us, derived, body)
select :id, :queue, :task, case when n.due_us <= n.now then 'ready' else 'scheduled' end, :priority, n.token, n.now, n.now,
    n.due_us, greatest(n.token, n.due_us), :derived, :body
from (
    select c.now, greatest(g.token + 1, c.now) as token, coalesce(:at_us::bigint, c.now + :delay_us::bigint) as due_us
    from (select coalesce(:now::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint) offset 0) as c (now)
    left join headrace_gone as g on g.id = :id
    where (g.until_us is null or g.until_us <= c.now)
        and not exists (select 1 from headrace_jobs as j where j.id = :id)
        and not exists (select 1 from headrace_ended as e where e.id between :id and :id order by e.id offset 0)
        and not (:promoting::boolean and exists (
            select 1 from headrace_jobs as d where d.queue = :queue and d.state = 'scheduled' and d.due_us <= c.now
        ))
) as n
on conflict do nothing returning true;

-- name: store
-- All in one: make due jobs ready, give places in the order of the jobs, store what is new. What is known of an id or a
-- key is looked up first; what another transaction is just writing is waited for, and is no error. Rows go in sorted by
-- key, so that producers of the same keys wait for each other in one order. Answers the moment, how many were stored,
-- and unless all were: which were, and why the others were not ([id, known, holder]).
with clock (now) as materialized (
    select coalesce(:now::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint)
),
due as materialized (
    select d.spot from unnest(:promote::text[]) as q (name) cross join lateral (
        select j.ctid as spot, j.due_us, j.place from headrace_jobs as j
        where j.queue = q.name and j.state = 'scheduled' and j.due_us <= (select now from clock)
        order by j.due_us, j.place limit :most for update skip locked
    ) as d
    order by d.due_us, d.place limit :most
),
moving as materialized (select spot, nextval('headrace_place') as place from due),
promoted as (
    update headrace_jobs as j set state = 'ready', place = m.place from moving as m where j.ctid = m.spot returning 1
),
looked as materialized (
    select n.*, c.now, g.token as old_token, coalesce(n.at_us, c.now + greatest(0, n.delay_us)) as due_us,
        coalesce(
            (select j.id from headrace_jobs as j where j.id = n.id),
            (select e.id from headrace_ended as e where e.id between n.id and n.id order by e.id limit 1),
            case when g.until_us > c.now then n.id end
        ) as known,
        (select h.id from headrace_jobs as h where h.queue = n.queue and h.held_key = n.unique_key) as holder
    from unnest(
        :ids::text[], :queues::text[], :tasks::text[], :priorities::integer[], :delays::bigint[], :dues::bigint[],
        :keys::text[], :untils::text[], :lifetimes::bigint[], :derived::boolean[], :bodies::bytea[]
    ) with ordinality as n (id, queue, task, priority, delay_us, at_us, unique_key, unique_until, unique_us, derived, body, nth)
    cross join clock as c
    left join headrace_gone as g on g.id = any (array[n.id, n.id])
    order by n.nth
),
placed as materialized (
    select l.*, nextval('headrace_place') as place, greatest(l.old_token + 1, l.now) as token
    from looked as l
    where l.known is null and l.holder is null and (select count(*) from promoted) >= 0
),
stored as (
    insert into headrace_jobs (
        place, id, queue, task, state, priority, token, created_us, base_us, due_us, since_us,
        derived, unique_key, held_key, unique_until, unique_us, body
    )
    select place, id, queue, task, case when due_us <= now then 'ready' else 'scheduled' end, priority, token, now, now,
        due_us, greatest(token, due_us), derived, unique_key, unique_key, unique_until, unique_us, body
    from placed order by unique_key, queue, nth
    on conflict do nothing
    returning id
)
select c.now, n.stored,
    case when n.stored < cardinality(:ids::text[]) then (select array_agg(id) from stored) end,
    case when n.stored < cardinality(:ids::text[]) then (
        select array_agg(array[id, coalesce(known, ''), coalesce(holder, '')]) from looked
        where known is not null or holder is not null
    ) end
from clock as c cross join (select count(*) as stored from stored) as n;

-- name: look
-- Before many jobs are copied in: make due jobs ready, and see whether nothing was ever heard of in the range of their
-- ids, where that is so short that few dead rows can be in the way of the look.
with clock (now) as materialized (
    select coalesce(:now::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint)
),
due as materialized (
    select d.spot from unnest(:promote::text[]) as q (name) cross join lateral (
        select j.ctid as spot, j.due_us, j.place from headrace_jobs as j
        where j.queue = q.name and j.state = 'scheduled' and j.due_us <= (select now from clock)
        order by j.due_us, j.place limit :most for update skip locked
    ) as d
    order by d.due_us, d.place limit :most
),
moving as materialized (select spot, nextval('headrace_place') as place from due),
promoted as (
    update headrace_jobs as j set state = 'ready', place = m.place from moving as m where j.ctid = m.spot
)
select c.now, not (
    exists (select 1 from headrace_jobs as j where j.id between :first and :last)
    or exists (select 1 from headrace_ended as e where e.id between :first and :last order by e.id offset 0)
    or exists (select 1 from headrace_gone as g where g.id between :first and :last)
)
from clock as c;

-- name: heard_of
-- Where something was, or the range is a wide one: whether it is one of these.
select exists (
    select 1 from unnest(:ids::text[]) as n (id)
    where coalesce(
        (select j.id from headrace_jobs as j where j.id = n.id),
        (select e.id from headrace_ended as e where e.id between n.id and n.id order by e.id limit 1),
        (select g.id from headrace_gone as g where g.id = n.id)
    ) is not null
);

-- name: copy
-- The columns in the order of `enqueue.COLUMNS`; the others have their defaults, a place at the end of the line among them.
copy headrace_jobs (
    queue, task, state, priority, token, created_us, base_us, due_us, since_us, derived, id, body
) from stdin (format binary);

-- name: why
-- Once more, for those that were neither stored nor explained: another transaction was in the way and has ended.
select n.id, n.queue,
    exists (select 1 from headrace_jobs as j where j.id = n.id offset 0)
        or exists (select 1 from headrace_ended as e where e.id between n.id and n.id order by e.id offset 0)
        or exists (select 1 from headrace_gone as g where g.id = n.id and g.until_us + 0 > :now offset 0),
    (select h.id from headrace_jobs as h where h.queue = n.queue and h.held_key = n.unique_key)
from unnest(:ids::text[], :queues::text[], :keys::text[]) as n (id, queue, unique_key);

-- name: promote
-- A job that becomes due goes to the end of its line, the earliest first. Those that others are promoting are theirs.
with clock (now) as materialized (
    select coalesce(:now::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint)
),
due as materialized (
    select d.spot from unnest(:queues::text[]) as q (name) cross join lateral (
        select j.ctid as spot, j.due_us, j.place from headrace_jobs as j
        where j.queue = q.name and j.state = 'scheduled' and j.due_us <= (select now from clock)
        order by j.due_us, j.place limit :most for update skip locked
    ) as d
    order by d.due_us, d.place limit :most
),
moving as materialized (select spot, nextval('headrace_place') as place from due),
promoted as (
    update headrace_jobs as j set state = 'ready', place = m.place from moving as m where j.ctid = m.spot returning 1
)
select count(*) from promoted;
