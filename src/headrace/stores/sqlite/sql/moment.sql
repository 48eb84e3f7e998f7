-- Time and the schema: what every operation begins with.

-- name: now
-- One moment for the whole operation. :now is set by tests and the simulator only; headrace_now() is the driver's clock.
select coalesce(:now, headrace_now());

-- name: is_there
-- Whether our schema is in the file: a table of facts with the columns of ours.
select count(*) = 2 from pragma_table_info('headrace_meta') where name in ('name', 'value');

-- name: taken
-- What another program has called by one of our names.
select name from sqlite_master
where name in ('headrace_meta', 'headrace_jobs', 'headrace_ended', 'headrace_gone', 'headrace_workers', 'headrace_queues')
order by name;

-- name: version
select name, value from headrace_meta where name in ('schema', 'oldest');
