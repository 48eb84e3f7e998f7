-- Registers. Whoever locks several does it in the order of their names. `any`: for the reason that settle.sql
-- gives.

-- name: found
-- The moment, and the registers of these names as they were last committed, also those whose time is over.
with clock (now) as materialized (
    select coalesce(:now::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint)
)
select c.now, r.name, r.body, r.until_us
from clock as c left join headrace_registers as r on r.name = any (:names::text[]);

-- name: swap
-- New contents, all or none: only where nobody has written to any of them since it was looked at. They are written by
-- their names, not where they were found: that is right also where one has been written between the look and the lock.
with wanted as materialized (
    select * from unnest(:names::text[], :old_bodies::bytea[], :old_untils::bigint[], :bodies::bytea[], :untils::bigint[])
        as w (name, old_body, old_until_us, body, until_us)
),
held as materialized (
    select w.name, w.body, w.until_us from wanted as w join headrace_registers as r on r.name = any (array[w.name, w.name])
    where r.until_us = w.old_until_us and r.body = w.old_body
    order by w.name collate "C" for update of r
)
update headrace_registers as r set body = h.body, until_us = h.until_us from held as h
where r.name = any (array[h.name, h.name]) and (select count(*) from held) = cardinality(:names::text[])
returning 1;

-- name: enter
-- Something to lock where there is none. Its time is over: to everybody it is as if it were not there.
insert into headrace_registers (name, body, until_us)
select w.name, '', 0 from unnest(:names::text[]) as w (name) order by w.name
on conflict (name) do nothing;

-- name: locked
-- The registers of these names, which nobody else can change any more, and the moment when that was so.
with held as materialized (
    select r.name, r.body, r.until_us from headrace_registers as r where r.name = any (:names::text[])
    order by r.name for update
),
clock (now) as materialized (
    select coalesce(:now::bigint, (extract(epoch from clock_timestamp()) * 1000000)::bigint)
    from (select count(*) from held) as n
)
select c.now, h.name, h.body, h.until_us from clock as c left join held as h on true;

-- name: write
update headrace_registers as r set body = w.body, until_us = w.until_us
from unnest(:names::text[], :bodies::bytea[], :untils::bigint[]) as w (name, body, until_us)
where r.name = any (array[w.name, w.name]);

-- name: erase
delete from headrace_registers where name = any (:names::text[]);

-- name: look
-- A page of those whose names begin with :prefix, which are those from it to :end, where there is one.
with clock (now) as materialized (
    select coalesce(:now::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint)
)
select r.name, r.body, r.until_us from headrace_registers as r cross join clock as c
where r.name >= :prefix and r.name > :after and (:end::text is null or r.name < :end) and r.until_us > c.now
order by r.name limit :limit;

-- name: prune
-- There are few, and so no index by time; those that somebody is writing are left.
delete from headrace_registers where ctid = any (array(
    select r.ctid from headrace_registers as r where r.until_us <= :now limit :limit for update skip locked
));
