-- Back to no schema at all.

-- name: hold
lock table headrace_jobs, headrace_ended in access exclusive mode;

-- name: lost
select 'jobs', count(*) from headrace_jobs
union all select 'failed jobs', count(*) from headrace_ended where state = 'failed';

-- name: jobs
drop table headrace_jobs;

-- name: undo
drop function headrace_undo_ended();

-- name: places
drop sequence headrace_place;

-- name: ended
drop table headrace_ended;

-- name: gone
drop table headrace_gone;

-- name: workers
drop table headrace_workers;

-- name: queues
drop table headrace_queues;

-- name: meta
drop table headrace_meta;
