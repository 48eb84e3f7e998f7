-- Back to a schema without once records.

-- name: hold
lock table headrace_once in access exclusive mode;

-- name: lost
-- What has taken effect would do so again.
select 'once records', count(*) from headrace_once where state in ('done', 'failed');

-- name: version
update headrace_meta set value = '2' where name = 'schema';

-- name: once
drop table headrace_once;
