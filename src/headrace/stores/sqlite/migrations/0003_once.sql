-- Once records: who may take effect under a key, and what the one who did has left.

-- name: once
-- `state`: held, done, failed or free. A job's record has its token, and holds while the job runs under it; one of others
-- has a token of 0, and holds until `lease_until_us`. `until_us`: forgotten then.
create table headrace_once (
    scope text not null,
    key text not null,
    fingerprint blob not null,
    state text not null,
    owner text not null,
    token integer not null,
    lease_until_us integer not null,
    fence integer not null,
    until_us integer not null,
    result blob,
    primary key (scope, key)
);

-- name: once_until
create index headrace_once_until on headrace_once (until_us);

-- name: version
update headrace_meta set value = 3 where name = 'schema';
