-- Registers. Columns are cast to what we write there, so that what another program wrote stops nobody.

-- name: found
-- Also those whose time is over.
select name, cast(body as blob), cast(until_us as integer) from headrace_registers
where name in (select value from json_each(:names));

-- name: write
-- Bound by position: name, body, until.
insert into headrace_registers (name, body, until_us) values (?, ?, ?)
on conflict (name) do update set body = excluded.body, until_us = excluded.until_us;

-- name: erase
delete from headrace_registers where name in (select value from json_each(:names));

-- name: look
-- A page of those whose names begin with :prefix, which are those from it to :end, where there is one.
select name, cast(body as blob), cast(until_us as integer) from headrace_registers
where name >= :prefix and name > :after and (:end is null or name < :end) and typeof(name) = 'text'
    and cast(until_us as integer) > :now
order by name limit :limit;

-- name: prune
delete from headrace_registers where rowid in (
    select rowid from headrace_registers where until_us <= :now order by until_us limit :limit
);
