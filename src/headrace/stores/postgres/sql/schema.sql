-- The schema: whether it is there, how old it is, and who may bring it up to date.

-- name: there
-- Read from the catalog: `to_regclass` may remember from before we waited for the lock that there was nothing.
select exists (
    select 1 from pg_catalog.pg_class as c where c.relname = 'headrace_meta' and pg_catalog.pg_table_is_visible(c.oid)
);

-- name: versions
select name, value from headrace_meta where name in ('schema', 'oldest');

-- name: patience
-- For this transaction only: an index of a large table takes longer than any operation may.
select set_config('statement_timeout', '0', true);

-- name: lock
-- One process at a time brings a database's schema up to date; the lock goes with the transaction.
select pg_advisory_xact_lock(4707325140)::text;
