-- Back to no schema at all.

-- name: hold
lock tables headrace_meta write, headrace_places write,
    headrace_jobs write, headrace_ended write, headrace_gone write, headrace_workers write, headrace_queues write;

-- name: lost
select 'jobs', count(*) from headrace_jobs
union all select 'failed jobs', count(*) from headrace_ended where state = 'failed';

-- name: version
-- The version goes first: DDL commits by itself, and what a crash leaves of the tables, the next upgrade uses again.
update headrace_meta set value = '0' where name = 'schema';

-- name: places
drop table if exists headrace_places;

-- name: jobs
drop table if exists headrace_jobs;

-- name: ended
drop table if exists headrace_ended;

-- name: gone
drop table if exists headrace_gone;

-- name: workers
drop table if exists headrace_workers;

-- name: queues
drop table if exists headrace_queues;

-- name: meta
drop table if exists headrace_meta;
