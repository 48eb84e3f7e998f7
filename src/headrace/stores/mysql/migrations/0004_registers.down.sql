-- Back to a schema without registers.

-- name: hold
lock tables headrace_meta write, headrace_registers write, headrace_parked write;

-- name: lost
-- What an operator has forced open would not be so any more.
select 'registers', count(*) from headrace_registers;

-- name: version
-- The version goes first: DDL commits by itself, and what a crash leaves of the tables, the next upgrade uses again.
update headrace_meta set value = '3' where name = 'schema';

-- name: parked
drop table if exists headrace_parked;

-- name: registers
drop table if exists headrace_registers;
