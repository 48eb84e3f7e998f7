-- Time and the schema. The clock is the server's, in UTC whatever the session's time zone; :now is set by tests and the
-- simulator only.

-- name: now
select coalesce(:now, timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)));

-- name: tables
select count(*) from information_schema.tables where table_schema = database() and table_name = 'headrace_meta';

-- name: version
select name, value from headrace_meta where name in ('schema', 'oldest');

-- name: lock
-- One migration at a time: DDL commits, so no transaction can guard it. Waits for 2 seconds; NULL is an error.
select get_lock(sha1(concat(database(), '/headrace_meta')), 2);

-- name: unlock
select release_lock(sha1(concat(database(), '/headrace_meta')));

-- name: let_go
-- Of the tables that a downgrade holds.
unlock tables;
