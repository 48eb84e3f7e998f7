-- What this file and this library promise, for `headrace doctor`.

-- name: library
select sqlite_version();

-- name: journal_mode
pragma journal_mode;

-- name: synchronous
pragma synchronous;

-- name: autocheckpoint
pragma wal_autocheckpoint;

-- name: check
-- The first problem only: a damaged file has many.
pragma quick_check(1);

-- name: strange
-- Rows in states that do not exist.
select count(*) from headrace_jobs where state not in ('scheduled', 'ready', 'running', 'parked');

-- name: queues
-- As bytes: a name may be no text.
select distinct cast(queue as blob) from headrace_jobs;
