-- Back to a schema without once records.

-- name: hold
lock tables headrace_meta write, headrace_once write;

-- name: lost
-- What has taken effect would do so again.
select 'once records', count(*) from headrace_once where state in ('done', 'failed');

-- name: version
-- The version goes first: DDL commits by itself, and what a crash leaves of the tables, the next upgrade uses again.
update headrace_meta set value = '2' where name = 'schema';

-- name: once
drop table if exists headrace_once;
