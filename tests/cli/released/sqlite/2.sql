-- What version 2 made, and a row as it left it. Never to be changed: upgrades from it are tested.

-- `seq` is never given twice. `created_at` and `published_at` are microseconds since the epoch, as `*_us` are.
-- `owner` holds the aggregate until `due_us`, where this row is its oldest unpublished one.
create table headrace_outbox (
    seq integer primary key autoincrement,
    id text not null unique,
    event_type text not null,
    aggregate_type text not null,
    aggregate_id text not null,
    payload text not null,
    headers text not null default '{}',
    status text not null default 'pending',
    created_at integer not null,
    published_at integer,
    attempts integer not null default 0,
    due_us integer not null default 0,
    owner text,
    note text not null default ''
);

-- Whose turn it is. `created_at` rides along for the oldest one's age.
create index headrace_outbox_due on headrace_outbox (due_us, seq, created_at) where status = 'pending';

-- The rows of an aggregate that are not yet out, in their order.
create index headrace_outbox_open on headrace_outbox (aggregate_type, aggregate_id, seq) where published_at is null;

create index headrace_outbox_parked on headrace_outbox (seq) where status = 'parked';

create index headrace_outbox_published on headrace_outbox (published_at, seq) where status = 'published';

create index headrace_outbox_cdc on headrace_outbox (created_at, seq) where status = 'cdc';

create table headrace_inbox (
    consumer text not null,
    message_id text not null,
    nonce text not null,
    received_at integer not null,
    primary key (consumer, message_id)
) without rowid;

create index headrace_inbox_received on headrace_inbox (received_at);

update headrace_meta set value = 2 where name = 'schema';

insert into headrace_outbox (id, event_type, aggregate_type, aggregate_id, payload, headers, created_at)
values ('0190f4e2-7c1b-7d3a-9f00-5a2b8c7d6e5f', 'OrderCreated', 'order', '17', '{}', '{}', 1780000000000000);
