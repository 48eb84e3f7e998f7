-- Leases: who lives, who is dead, and what the dead leave behind. A job row is written only when it is given back.

-- name: held
select id, token, claim, cancel from headrace_jobs where worker = :worker and state = 'running';

-- name: held_whole
select id, queue, token, cast(trail as blob), place, cancel
from headrace_jobs where worker = :worker and state = 'running' order by priority desc, place;

-- name: leave
delete from headrace_workers where worker = :worker;

-- name: ownerless
-- Running, but under nobody's name: another program wrote that.
update headrace_jobs set worker = '' where state = 'running' and worker is null;

-- name: orphans
-- All running jobs of workers whose lease is over or missing and who hold something in these queues; `alone`: nothing else.
select j.id, j.queue, j.token, j.worker, cast(j.trail as blob),
    not exists (select 1 from headrace_jobs as o where o.worker = j.worker and o.state = 'running' and o.place <> j.place),
    j.cancel, j.place
from headrace_jobs as j
where j.state = 'running' and j.worker in (
    select d.worker from headrace_jobs as d
    where d.state = 'running' and d.queue in (select value from json_each(:queues))
        and not exists (select 1 from headrace_workers as w where w.worker = d.worker and w.lease_until_us > :now)
)
order by j.worker, j.priority desc, j.place;

-- name: dead
delete from headrace_workers
where lease_until_us <= :now
    and not exists (
        select 1 from headrace_jobs as j where j.worker = headrace_workers.worker and j.state = 'running'
    );
