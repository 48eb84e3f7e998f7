-- Back to a schema without registers.

-- name: hold
lock tables headrace_meta write, headrace_jobs write, headrace_registers write, headrace_parked write;

-- name: lost
-- What an operator has forced open would not be so any more.
select 'registers', count(*) from headrace_registers;

-- name: parked
-- Whatever they wait for, no older version gives a parked job back.
update headrace_jobs set state = 'ready', turn = -priority where state = 'parked';

-- name: version
-- The version goes first: DDL commits by itself, and what a crash leaves of the tables, the next upgrade uses again.
update headrace_meta set value = '3' where name = 'schema';

-- name: parked_for
drop table if exists headrace_parked;

-- name: registers
drop table if exists headrace_registers;
