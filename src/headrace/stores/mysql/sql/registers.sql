-- Registers. Whoever locks several does it in the order of their names.

-- name: found
-- The moment, and the registers of these names as they were last committed, also those whose time is over.
select coalesce(:now, timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))), null, 0, null
union all
select 0, name, until_us, body from headrace_registers force index (primary) where name in :names;

-- name: enter
-- Something to lock where there is none. Its time is over: to everybody it is as if it were not there. What is there
-- stays as it is, and is locked.
insert into headrace_registers (name, until_us, body) values :rows
on duplicate key update name = headrace_registers.name;

-- name: locked
-- What is under these names now, and the moment when that was so.
select coalesce(:now, timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))), name, until_us, body
from headrace_registers force index (primary) where name in :names order by name for update;

-- name: write
-- Registers that are locked get new contents.
replace into headrace_registers (name, until_us, body) values :rows;

-- name: erase
delete from r using headrace_registers as r force index (primary) where r.name in :names;

-- name: look
-- A page of those whose names begin with :prefix, which are those from it to :end, where there is one.
select name, body, until_us from headrace_registers force index (primary)
where name >= :prefix and name > :after and (:end is null or name < :end) and until_us > :now
order by name limit :limit;

-- name: old
-- Those whose time is over; those that somebody is writing are left.
select name from headrace_registers force index (until_us)
where until_us <= :now order by until_us limit :limit for update skip locked;
