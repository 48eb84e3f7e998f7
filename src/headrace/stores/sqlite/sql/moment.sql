-- Time and the schema: what every operation begins with.

-- name: now
-- One moment for the whole operation. :now is set by tests and the simulator only; headrace_now() is the driver's clock.
select coalesce(:now, headrace_now());

-- name: tables
select count(*) from sqlite_master where type = 'table' and name = 'headrace_meta';

-- name: version
select value from headrace_meta where name = 'schema';

-- name: set_version
update headrace_meta set value = :version where name = 'schema';
