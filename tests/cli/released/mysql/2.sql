-- What version 2 made, and a row as it left it. Never to be changed: upgrades from it are tested.

-- Others read this table too, so its columns have the types that they expect: a connector takes `created_at` for a
-- timestamp only if it has no time zone. It and `published_at` are in UTC. `payload` is a text, since a column of type
-- JSON would change it. `owner` holds the aggregate until `due_us`, where this row is its oldest unpublished one.
create table if not exists headrace_outbox (
    seq bigint not null primary key auto_increment,
    id char(36) character set ascii collate ascii_bin not null,
    event_type varchar(255) not null,
    aggregate_type varchar(255) not null,
    aggregate_id varchar(255) not null,
    payload longtext not null,
    headers longtext not null,
    status varchar(20) character set ascii collate ascii_bin not null default 'pending',
    created_at datetime(6) not null,
    published_at datetime(6) null,
    attempts int not null default 0,
    due_us bigint not null default 0,
    owner varbinary(255) null,
    note varbinary(2000) not null default '',
    unique key id (id),
    key due (status, due_us),
    key open (aggregate_type, aggregate_id, published_at, seq),
    key published (status, published_at),
    key written (status, created_at)
) engine = innodb row_format = dynamic default charset = utf8mb4 collate = utf8mb4_bin;

create table if not exists headrace_inbox (
    consumer varbinary(1020) not null,
    message_id varbinary(1020) not null,
    nonce varbinary(255) not null,
    received_at datetime(6) not null,
    primary key (consumer, message_id),
    key received_at (received_at)
) engine = innodb row_format = dynamic default charset = utf8mb4;

update headrace_meta set value = '2' where name = 'schema';

insert into headrace_outbox (id, event_type, aggregate_type, aggregate_id, payload, headers, created_at)
values ('0190f4e2-7c1b-7d3a-9f00-5a2b8c7d6e5f', 'OrderCreated', 'order', '17', '{}', '{}', '2026-05-28 20:26:40');
