-- Back to a schema without outbox and inbox.

-- name: hold
lock table headrace_outbox, headrace_inbox in access exclusive mode;

-- name: lost
select 'events', count(*) from headrace_outbox where status <> 'published'
union all select 'received messages', count(*) from headrace_inbox;

-- name: version
update headrace_meta set value = '1' where name = 'schema';

-- name: outbox
drop table headrace_outbox;

-- name: inbox
drop table headrace_inbox;
