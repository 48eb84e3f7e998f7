-- Once records: who may take effect under a key, and what the one who did has left.

-- name: once
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

-- name: once_until
create index headrace_once_until on headrace_once (until_us);

-- name: version
update headrace_meta set value = '3' where name = 'schema';
