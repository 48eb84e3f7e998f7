-- The schema: whether it is there, how old it is, and who may bring it up to date.

-- name: there
select to_regclass('headrace_meta') is not null;

-- name: versions
select name, value from headrace_meta where name in ('schema', 'oldest');

-- name: lock
-- One process at a time brings a database's schema up to date; the lock goes with the transaction.
select pg_advisory_xact_lock(4707325140)::text;

-- name: set_version
update headrace_meta set value = :version where name = 'schema';
