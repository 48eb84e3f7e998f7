-- Workers take jobs: claim, and the answer of a claim whose reply was lost.

-- name: take
-- All in one: a sign of life, and the head of the queues in their order. Where jobs are due nothing is done, unless
-- :anyway: they must be made ready first. Others' locks are skipped. Each row carries the moment, the next due time,
-- the worker's claim before this one (null where nothing was done), whether ready jobs are left behind, when the look
-- at the queues ended and how long it took; then rank and place of a job, and the job. In each queue the look begins
-- after a place (see `heads`).
-- The lease is set, also to an earlier moment: a clock that was set back must not leave one that lasts for hours.
with clock (now) as materialized (
    select coalesce(:now::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint)
),
line as materialized (
    select q.* from unnest(:queues::text[], :ranks::integer[], :places::bigint[]) with ordinality as q (name, rank, place, nth)
),
later as materialized (
    select min(d.due_us) as due_us from line as l cross join lateral (
        select j.due_us from headrace_jobs as j where j.queue = l.name and j.state = 'scheduled' order by j.due_us limit 1
    ) as d
),
seen as (
    insert into headrace_workers as w (worker, lease_until_us, last_claim, prior_claim)
    select :worker, c.now + :lease_us::bigint, :number::bigint, 0 from clock as c cross join later as d
    where :anyway::boolean or d.due_us is null or d.due_us > c.now
    on conflict (worker) do update set
        lease_until_us = excluded.lease_until_us,
        prior_claim = w.last_claim,
        last_claim = greatest(w.last_claim, excluded.last_claim)
    returning prior_claim
),
picked as materialized (
    select p.spot, p.rank, p.place, l.name, l.nth from line as l cross join lateral (
        select j.ctid as spot, -j.priority as rank, j.place from headrace_jobs as j
        where j.queue = l.name and j.state = 'ready' and (-j.priority, j.place) > (l.rank, l.place)
        order by -j.priority, j.place limit :limit for update skip locked
    ) as p
    where (select prior_claim from seen) < :number::bigint
    limit :limit
),
looked as materialized (
    select n.picked, (extract(epoch from clock_timestamp()) * 1000000)::bigint as at_us,
        (extract(epoch from clock_timestamp() - statement_timestamp()) * 1000000)::bigint as took_us
    from (select count(*) as picked from picked) as n
),
taken as (
    update headrace_jobs as j set state = 'running', worker = :worker, claim = :number, claimed_us = c.now,
        held_key = case when j.unique_until = 'start' then null else j.held_key end
    from picked as p cross join clock as c where j.ctid = p.spot
    returning p.nth, p.rank, j.place, j.id, j.queue, j.token, j.body, j.trail, j.created_us, j.base_us
),
entered as (
    insert into headrace_queues (name)
    select l.name from line as l
    where exists (select 1 from picked as p where p.nth = l.nth)
        and not exists (select 1 from headrace_queues as q where q.name = l.name offset 0)
    on conflict do nothing
),
tail as materialized (select name, nth, rank, place from picked order by nth desc, rank desc, place desc limit 1)
select c.now, d.due_us, s.prior_claim,
    k.picked = :limit and (
        exists (
            select 1 from tail as t cross join lateral (
                select 1 from headrace_jobs as j
                where j.queue = t.name and j.state = 'ready' and (-j.priority, j.place) > (t.rank, t.place) limit 1
            ) as r
        )
        or exists (
            select 1 from line as l cross join lateral (
                select 1 from headrace_jobs as j where j.queue = l.name and j.state = 'ready' limit 1
            ) as r
            where l.nth > coalesce((select nth from tail), 0)
        )
    ),
    k.at_us, k.took_us, t.rank, t.place,
    t.id, t.queue, t.token, t.body, t.trail, t.created_us, t.base_us
from clock as c cross join later as d cross join looked as k left join seen as s on true left join taken as t on true
order by t.nth, t.rank, t.place;

-- name: repeat
-- What a worker still holds of one claim; the first column tells whether ready jobs are beside it.
select r.more, j.id, j.queue, j.token, j.body, j.trail, j.created_us, j.base_us
from (
    select exists (
        select 1 from unnest(:queues::text[]) as q (name) cross join lateral (
            select 1 from headrace_jobs as j where j.queue = q.name and j.state = 'ready' limit 1
        ) as r
    ) as more
) as r left join headrace_jobs as j on j.worker = :worker and j.state = 'running' and j.claim = :number
order by -j.priority, j.place;
