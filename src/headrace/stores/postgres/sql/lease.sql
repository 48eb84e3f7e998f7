-- Leases: who lives, who is dead, and what the dead leave behind. A job row is written only when it is given back.
-- `offset 0` keeps a look apart, so that the planner does not compare all with all.

-- name: beat
-- A sign of life, and all that the store holds for the worker. Rows: the moment; id, token, claim and whether to cancel.
with clock (now) as materialized (
    select coalesce(:now::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint)
),
seen as (
    insert into headrace_workers (worker, lease_until_us)
    select :worker, c.now + :lease_us::bigint from clock as c
    on conflict (worker) do update set lease_until_us = excluded.lease_until_us
)
select c.now, j.id, j.token, j.claim, j.cancel
from clock as c left join headrace_jobs as j on j.worker = :worker and j.state = 'running';

-- name: held
select j.id, j.queue, j.token, j.trail from headrace_jobs as j
where j.worker = :worker and j.state = 'running' order by -j.priority, j.place;

-- name: leave
delete from headrace_workers where worker = :worker;

-- name: dead
-- Whether workers are dead, rows of workers or only their names on running jobs; and the moment. One look, no lock.
with recursive clock (now) as materialized (
    select coalesce(:now::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint)
),
holders (worker) as (
    (select j.worker from headrace_jobs as j where j.state = 'running' order by j.worker limit 1)
    union all
    select (
        select j.worker from headrace_jobs as j where j.state = 'running' and j.worker > h.worker order by j.worker limit 1
    ) from holders as h where h.worker is not null
)
select c.now,
    exists (select 1 from headrace_workers as w where w.lease_until_us <= c.now)
        or exists (
            select 1 from holders as h
            where h.worker is not null and not exists (select 1 from headrace_workers as w where w.worker = h.worker)
        )
from clock as c;

-- name: lock_dead
-- The rows of the dead: a heartbeat that comes now waits, one that has come meanwhile saves its worker.
select worker from headrace_workers where lease_until_us <= :now order by worker for update;

-- name: orphans
-- All running jobs of workers who are dead and hold something in these queues; `alone`: nothing else. Those whose rows are
-- locked are being settled, or completed in a transaction of a handler's that may stay open: nobody waits for them.
select j.id, j.queue, j.token, j.worker, j.trail,
    not exists (
        select 1 from headrace_jobs as o where o.worker = j.worker and o.state = 'running' and o.id <> j.id
    ),
    j.cancel
from headrace_jobs as j
where j.state = 'running'
    and (
        j.worker = any (:dead::text[])
        or not exists (select 1 from headrace_workers as w where w.worker = j.worker)
    )
    and exists (
        select 1 from headrace_jobs as d
        where d.worker = j.worker and d.state = 'running' and d.queue = any (:queues::text[]) offset 0
    )
order by j.worker, -j.priority, j.place for update of j skip locked;

-- name: bury
-- The dead that hold nothing any more.
delete from headrace_workers as w
where w.worker = any (:dead::text[])
    and not exists (select 1 from headrace_jobs as j where j.worker = w.worker and j.state = 'running' offset 0);
