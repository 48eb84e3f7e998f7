-- What version 3 made, and a row as it left it. Never to be changed: upgrades from it are tested.

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

update headrace_meta set value = '3' where name = 'schema';

insert into headrace_once (scope, `key`, fingerprint, state, owner, token, lease_until_us, fence, until_us, result)
values ('shop.charge', 'charge:17', x'00', 'done', 'of-version-3', 1780000000000000, 0, 1780000000000000, 4102444800000000, '17');
