-- Back to a schema without registers.

-- name: hold
lock table headrace_jobs, headrace_registers in access exclusive mode;

-- name: lost
-- What an operator has forced open would not be so any more.
select 'registers', count(*) from headrace_registers;

-- name: parked
-- Whatever they wait for, no older version gives a parked job back.
update headrace_jobs set state = 'ready' where state = 'parked';

-- name: version
update headrace_meta set value = '3' where name = 'schema';

-- name: jobs_parked_for
drop index headrace_jobs_parked_for;

-- name: registers
drop table headrace_registers;
