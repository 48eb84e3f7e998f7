-- Back to a schema without outbox and inbox.

-- name: hold
lock tables headrace_meta write, headrace_outbox write, headrace_inbox write;

-- name: lost
select 'events', count(*) from headrace_outbox where status <> 'published'
union all select 'received messages', count(*) from headrace_inbox;

-- name: version
-- The version goes first: DDL commits by itself, and what a crash leaves of the tables, the next upgrade uses again.
update headrace_meta set value = '1' where name = 'schema';

-- name: outbox
drop table if exists headrace_outbox;

-- name: inbox
drop table if exists headrace_inbox;
