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
