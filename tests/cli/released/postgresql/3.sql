-- What version 3 made, and a row as it left it. Never to be changed: upgrades from it are tested.

-- `state`: held, done, failed or free. A job's record has its token, and holds while the job runs under it; one of others
-- has a token of 0, and holds until `lease_until_us`. `until_us`: forgotten then.
-- Most are written once more, by their end: their pages, and those of their keys, have room for that.
create table headrace_once (
    scope text collate "C" not null,
    key text collate "C" not null,
    fingerprint bytea not null,
    state text collate "C" not null,
    owner text collate "C" not null,
    token bigint not null,
    lease_until_us bigint not null,
    fence bigint not null,
    until_us bigint not null,
    result bytea,
    primary key (scope, key) with (fillfactor = 50)
) with (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_scale_factor = 0.2,
    autovacuum_analyze_scale_factor = 0.1,
    autovacuum_analyze_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = false
);

create index headrace_once_until on headrace_once (until_us);

update headrace_meta set value = '3' where name = 'schema';

insert into headrace_once (scope, key, fingerprint, state, owner, token, lease_until_us, fence, until_us, result)
values ('shop.charge', 'charge:17', '\x00', 'done', 'of-version-3', 1780000000000000, 0, 1780000000000000, 4102444800000000, '17');
