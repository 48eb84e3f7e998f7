-- What version 2 made, and a row as it left it. Never to be changed: upgrades from it are tested.

-- Others read this table too, so its columns have the types that they expect: a connector takes `created_at` for a
-- timestamp only if it has no time zone. It and `published_at` are in UTC. `owner` holds the aggregate until `due_us`,
-- where this row is its oldest unpublished one.
create table headrace_outbox (
    seq bigint generated always as identity (cache 1) primary key,
    id uuid not null unique,
    event_type varchar(255) collate "C" not null,
    aggregate_type varchar(255) collate "C" not null,
    aggregate_id varchar(255) collate "C" not null,
    payload json not null,
    headers json not null default '{}',
    status varchar(20) collate "C" not null default 'pending',
    created_at timestamp not null default (now() at time zone 'utc'),
    published_at timestamp,
    attempts integer not null default 0,
    due_us bigint not null default 0,
    owner text collate "C",
    note text not null default ''
) with (
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = false
);

-- Whose turn it is. `created_at` rides along for the oldest one's age.
create index headrace_outbox_due on headrace_outbox (due_us, seq) include (created_at) where status = 'pending';

-- The rows of an aggregate that are not yet out, in their order.
create index headrace_outbox_open on headrace_outbox (aggregate_type, aggregate_id, seq) where published_at is null;

create index headrace_outbox_parked on headrace_outbox (seq) where status = 'parked';

create index headrace_outbox_published on headrace_outbox (published_at, seq) where status = 'published';

create index headrace_outbox_cdc on headrace_outbox (created_at, seq) where status = 'cdc';

create table headrace_inbox (
    consumer text collate "C" not null,
    message_id text collate "C" not null,
    nonce text collate "C" not null,
    received_at timestamp not null,
    primary key (consumer, message_id)
);

create index headrace_inbox_received on headrace_inbox (received_at);

update headrace_meta set value = '2' where name = 'schema';

insert into headrace_outbox (id, event_type, aggregate_type, aggregate_id, payload, headers, created_at)
values ('0190f4e2-7c1b-7d3a-9f00-5a2b8c7d6e5f', 'OrderCreated', 'order', '17', '{}', '{}', '2026-05-28 20:26:40');
