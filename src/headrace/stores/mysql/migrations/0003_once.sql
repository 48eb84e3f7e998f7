-- Once records: who may take effect under a key, and what the one who did has left.

-- name: once
-- `state`: held, done, failed or free. A job's record has its token, and holds while the job runs under it; one of others
-- has a token of 0, and holds until `lease_until_us`. `until_us`: forgotten then. A key has up to 500 characters, that is
-- 2000 bytes; with its scope it stays below the 3072 that an index may have.
create table if not exists headrace_once (
    scope varbinary(1000) not null,
    `key` varbinary(2000) not null,
    fingerprint varbinary(255) not null default '',
    state varbinary(20) not null,
    owner varbinary(800) not null,
    token bigint not null default 0,
    lease_until_us bigint not null default 0,
    fence bigint not null,
    until_us bigint not null,
    result mediumblob null,
    primary key (scope, `key`),
    key until_us (until_us)
) engine = innodb row_format = dynamic default charset = utf8mb4;

-- name: version
update headrace_meta set value = '3' where name = 'schema';
