-- Waiting for work: of all workers that are idle with the same queues, the one that holds a lock looks, the others wait
-- for the lock. So the whole fleet asks as often as one worker, and producers have nothing to do.

-- name: enter
-- Waits for its turn for a second. :group stands for those who wait for the same.
select get_lock(sha1(concat(database(), '/headrace_watch/', :group)), 1);

-- name: look
-- Whether jobs are ready or due in any of these queues. Relays wait in the same way, by a queue of that name.
select exists (select 1 from headrace_jobs as r force index (line) where r.state = 'ready' and r.queue in :queues)
    or exists (
        select 1 from headrace_jobs as s force index (line)
        where s.state = 'scheduled' and s.queue in :queues
            and s.turn <= coalesce(:now, timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)))
    )
    or 'headrace.outbox' in :queues and exists (
        select 1 from headrace_outbox as e force index (due)
        where e.status = 'pending'
            and e.due_us <= coalesce(:now, timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)))
    );

-- name: leave
select release_lock(sha1(concat(database(), '/headrace_watch/', :group)));
