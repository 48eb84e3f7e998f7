-- Registers, and parked jobs by what they wait for.

-- name: registers
-- Small records that all workers share, such as the state of a circuit. `until_us`: forgotten then.
-- There are few, and some are written all the time: no index names what is written, and the pages have room, so that a
-- write touches one page and what it leaves behind goes with the next one.
create table headrace_registers (
    name text collate "C" not null primary key,
    body bytea not null,
    until_us bigint not null
) with (
    fillfactor = 30,
    autovacuum_vacuum_scale_factor = 0.1,
    autovacuum_vacuum_threshold = 200,
    autovacuum_vacuum_cost_delay = 0
);

-- name: jobs_parked_for
-- The order in which they come back. Another program may write a reason that is too long for an index.
create index headrace_jobs_parked_for on headrace_jobs (queue, (left(reason, 200)), (-priority), place)
where state = 'parked';

-- name: version
update headrace_meta set value = '4' where name = 'schema';
