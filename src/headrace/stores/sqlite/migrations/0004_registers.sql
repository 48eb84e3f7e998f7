-- Registers, and parked jobs by what they wait for.

-- name: registers
-- Small records that all workers share, such as the state of a circuit. `until_us`: forgotten then.
create table headrace_registers (
    name text primary key,
    body blob not null,
    until_us integer not null
);

-- name: registers_until
create index headrace_registers_until on headrace_registers (until_us);

-- name: jobs_parked_for
-- The order in which they come back.
create index headrace_jobs_parked_for on headrace_jobs (queue, reason, priority desc, place) where state = 'parked';

-- name: version
update headrace_meta set value = 4 where name = 'schema';
