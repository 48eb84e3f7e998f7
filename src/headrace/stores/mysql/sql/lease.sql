-- Leases: who lives, who is dead, and what the dead leave behind. A job row is written only when it is given back.

-- name: held
select id, token, claim, cancel from headrace_jobs where worker = :worker and state = 'running';

-- name: held_whole
select id, queue, token, trail, cancel, derived from headrace_jobs force index (worker)
where worker = :worker and state = 'running' order by turn, place for update;

-- name: leave
delete from headrace_workers where worker = :worker;

-- name: dead
-- Workers whose lease is over or missing and who hold something in these queues.
select distinct d.worker from headrace_jobs as d
where d.state = 'running' and d.queue in :queues and d.worker is not null
    and not exists (select 1 from headrace_workers as w where w.worker = d.worker and w.lease_until_us > :now)
order by d.worker;

-- name: locked
-- Locks their rows: a heartbeat that comes now waits, and finds its jobs lost; one that came before has saved them.
select worker, lease_until_us from headrace_workers where worker in :workers order by worker for update;

-- name: orphans
-- All running jobs of one dead worker, and how many it holds. Those whose rows are locked are being settled, or completed
-- in a transaction of a handler's that may stay open: nobody waits for them.
select id, queue, token, trail, cancel, derived,
    (select count(*) from headrace_jobs as o force index (worker) where o.worker = :worker and o.state = 'running')
from headrace_jobs force index (worker)
where worker = :worker and state = 'running' order by turn, place for update skip locked;

-- name: idle
-- Dead workers that hold nothing.
select w.worker from headrace_workers as w
where w.lease_until_us <= :now
    and not exists (select 1 from headrace_jobs as j where j.worker = w.worker and j.state = 'running')
order by w.worker;

-- name: forget
delete from headrace_workers where worker in :workers and lease_until_us <= :now;
