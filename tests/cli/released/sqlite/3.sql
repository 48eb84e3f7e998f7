-- What version 3 made, and a row as it left it. Never to be changed: upgrades from it are tested.

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

create index headrace_once_until on headrace_once (until_us);

update headrace_meta set value = 3 where name = 'schema';

insert into headrace_once (scope, key, fingerprint, state, owner, token, lease_until_us, fence, until_us, result)
values ('shop.charge', 'charge:17', x'00', 'done', 'of-version-3', 1780000000000000, 0, 1780000000000000, 4102444800000000, '17');
