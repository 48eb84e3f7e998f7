-- What version 1 made, and a row as it left it. Never to be changed: upgrades from it are tested.

create table if not exists headrace_meta (
    name varbinary(100) not null primary key,
    value varbinary(1000) not null
) engine = innodb row_format = dynamic default charset = utf8mb4;

-- `oldest`: code that knows this version of the schema may still use it, so that workers need not all be updated at once.
insert into headrace_meta (name, value) values ('installation_id', replace(uuid(), '-', '')), ('oldest', '1')
on duplicate key update name = headrace_meta.name;

-- Draws places in the line: a counter that belongs to no transaction, so that a long one holds up nobody. Each connection
-- replaces the row of its own, so that there are as many rows as connections.
create table if not exists headrace_places (
    slot bigint unsigned not null primary key,
    place bigint not null auto_increment,
    unique key place (place)
) engine = innodb row_format = dynamic default charset = utf8mb4;

-- `state`: scheduled, ready, running or parked. `since_us` = max(token, due_us): ready since then.
-- `turn` orders the jobs of one queue and state: due_us where it is scheduled, else -priority; `place` comes second.
-- `held_key` is queue, NUL, unique key while this job holds it: it goes with the row, so ending a job frees its key.
create table if not exists headrace_jobs (
    id varbinary(800) not null primary key,
    queue varbinary(255) not null,
    task varbinary(1000) not null,
    state varbinary(20) not null,
    priority int not null default 0,
    turn bigint not null default 0,
    place bigint not null default 0,
    token bigint not null default 0,
    created_us bigint not null default 0,
    base_us bigint not null default 0,
    due_us bigint not null default 0,
    since_us bigint not null default 0,
    claimed_us bigint null,
    worker varbinary(255) null,
    claim bigint not null default 0,
    cancel tinyint not null default 0,
    derived tinyint not null default 0,
    unique_key varbinary(2000) null,
    held_key varbinary(2256) null,
    unique_until varbinary(10) not null default 'end',
    unique_us bigint not null default 0,
    reason varbinary(1000) not null default '',
    trail mediumblob null,
    body mediumblob not null,
    unique key held_key (held_key),
    key line (state, queue, turn, place, since_us),
    key worker (worker)
) engine = innodb row_format = dynamic default charset = utf8mb4;

-- Failed jobs, and finished ones that are kept for a while.
create table if not exists headrace_ended (
    id varbinary(800) not null primary key,
    queue varbinary(255) not null,
    task varbinary(1000) not null,
    state varbinary(20) not null,
    priority int not null,
    token bigint not null,
    created_us bigint not null,
    base_us bigint not null,
    due_us bigint not null,
    finished_us bigint not null,
    keep_until_us bigint null,
    derived tinyint not null,
    unique_key varbinary(2000) null,
    unique_until varbinary(10) not null,
    unique_us bigint not null,
    reason varbinary(1000) not null,
    trail mediumblob null,
    body mediumblob not null,
    key finished (state, finished_us, id),
    key kept (keep_until_us)
) engine = innodb row_format = dynamic default charset = utf8mb4;

-- Tombstones: ids that ended a while ago, so that a resent enqueue makes no second job.
create table if not exists headrace_gone (
    id varbinary(800) not null primary key,
    until_us bigint not null,
    token bigint not null,
    key until_us (until_us)
) engine = innodb row_format = dynamic default charset = utf8mb4;

-- One row per worker: a heartbeat writes this row and no job's. `previous_claim` was the last one before this row was
-- written last.
create table if not exists headrace_workers (
    worker varbinary(255) not null primary key,
    lease_until_us bigint not null,
    last_claim bigint not null,
    previous_claim bigint not null
) engine = innodb row_format = dynamic default charset = utf8mb4;

create table if not exists headrace_queues (
    name varbinary(255) not null primary key
) engine = innodb row_format = dynamic default charset = utf8mb4;

insert into headrace_meta (name, value) values ('schema', '1') on duplicate key update value = '1';

insert into headrace_jobs (place, id, queue, task, state, priority, token, created_us, base_us, due_us, since_us, body)
values (1, 'of-version-1', 'default', 'shop.mail', 'ready', 0, 1780000000000000, 1780000000000000, 1780000000000000, 1780000000000000, 1780000000000000,
    x'7b2276223a312c226964223a226f662d76657273696f6e2d31222c227461736b223a2273686f702e6d61696c222c2261726773223a7b226f726465725f6964223a31377d7d');

insert into headrace_queues (name) values ('default');

insert into headrace_places (slot, place) values (1, 1);
