-- The outbox, its relays and its operators; and the inbox.

-- name: add
-- What is there already is passed over without an error.
insert into headrace_outbox (
    id, event_type, aggregate_type, aggregate_id, payload, headers, status, created_at, due_us
) values :rows
on duplicate key update id = headrace_outbox.id;

-- name: is_cdc
select exists (select 1 from headrace_outbox where status = 'cdc');

-- name: due
-- The first rows whose turn it is and that nobody else is looking at; whether an older one of the aggregate is not out,
-- and whether a younger one is not. A program that is not ours may have written a date of zeros, which is no number.
select e.seq, coalesce(timestampdiff(microsecond, '1970-01-01', e.created_at), 0),
    exists (
        select 1 from headrace_outbox as o
        where o.aggregate_type = e.aggregate_type and o.aggregate_id = e.aggregate_id and o.published_at is null
            and o.seq < e.seq
    ),
    exists (
        select 1 from headrace_outbox as o
        where o.aggregate_type = e.aggregate_type and o.aggregate_id = e.aggregate_id and o.published_at is null
            and o.seq > e.seq
    )
from headrace_outbox as e force index (due)
where e.status = 'pending' and e.due_us <= :now
order by e.due_us, e.seq limit :limit for update skip locked;

-- name: rows
-- Heads alone.
select seq, id, event_type, aggregate_type, aggregate_id, payload, headers,
    coalesce(timestampdiff(microsecond, '1970-01-01', created_at), 0), attempts, status = 'parked', owner, due_us
from headrace_outbox where seq in :heads;

-- name: lane
-- A head and what follows it.
select r.seq, r.id, r.event_type, r.aggregate_type, r.aggregate_id, r.payload, r.headers,
    coalesce(timestampdiff(microsecond, '1970-01-01', r.created_at), 0), r.attempts, r.status = 'parked', r.owner, r.due_us
from headrace_outbox as h
join headrace_outbox as r force index (open)
    on r.aggregate_type = h.aggregate_type and r.aggregate_id = h.aggregate_id and r.published_at is null
where h.seq = :head
order by r.seq limit :each;

-- name: hold
update headrace_outbox set owner = :owner, due_us = :until_us where seq in :heads;

-- name: behind
-- Which of these rows still have an older one of their aggregate before them.
select e.seq from headrace_outbox as e
where e.seq in :seqs and exists (
    select 1 from headrace_outbox as o
    where o.aggregate_type = e.aggregate_type and o.aggregate_id = e.aggregate_id and o.published_at is null
        and o.seq < e.seq
);

-- name: put_off
update headrace_outbox set due_us = :due_us where seq = :seq;

-- name: next_due
select due_us from headrace_outbox force index (due) where status = 'pending' order by due_us limit 1;

-- name: held
-- Which of these heads are still the owner's.
select seq from headrace_outbox where seq in :heads and owner = :owner and status = 'pending' for update;

-- name: publish
update headrace_outbox set status = 'published', published_at = :moment, owner = null, note = ''
where seq in :seqs and published_at is null;

-- name: annotate
update headrace_outbox set note = :note where seq = :seq;

-- name: put_back
update headrace_outbox
set status = :status, attempts = attempts + :failures, due_us = :due_us, owner = null, note = :note
where seq = :seq and published_at is null;

-- name: next
-- The next rows of these heads' aggregates.
select (
    select s.seq from headrace_outbox as s force index (open)
    where s.aggregate_type = h.aggregate_type and s.aggregate_id = h.aggregate_id and s.published_at is null
    order by s.seq limit 1
)
from headrace_outbox as h where h.seq in :heads;

-- name: wake
-- They need not wait until they are looked at again. Waits for a relay that is about to put one of them off.
update headrace_outbox set due_us = least(due_us, :now) where seq in :seqs and status = 'pending' and owner is null;

-- name: count
select (select count(*) from headrace_outbox where status = 'pending'),
    (select count(*) from headrace_outbox where status = 'parked'),
    (select count(*) from headrace_outbox where status = 'published'),
    (select count(*) from headrace_outbox where status = 'cdc'),
    (select timestampdiff(microsecond, '1970-01-01', min(created_at)) from headrace_outbox where status = 'pending');

-- name: lags
select coalesce(timestampdiff(microsecond, created_at, published_at), 0)
from headrace_outbox where status = 'published' and published_at is not null order by published_at desc limit 100;

-- name: parked
select seq, id, event_type, aggregate_type, aggregate_id,
    coalesce(timestampdiff(microsecond, '1970-01-01', created_at), 0), attempts, note
from headrace_outbox where status = 'parked' order by seq limit :limit;

-- name: parked_of
-- The numbers of parked rows: these, or every one.
select seq from headrace_outbox where status = 'parked' and (:every or id in :ids) for update;

-- name: retry
update headrace_outbox set status = 'pending', attempts = 0, due_us = :now, owner = null where seq in :seqs;

-- name: skip
update headrace_outbox set status = 'published', published_at = :moment, note = 'skipped' where seq in :seqs;

-- name: old_published
select seq from headrace_outbox force index (published)
where status = 'published' and published_at <= :before order by published_at limit :limit for update skip locked;

-- name: old_cdc
select seq from headrace_outbox force index (written)
where status = 'cdc' and created_at <= :before order by created_at limit :limit for update skip locked;

-- name: delete
delete from o using headrace_outbox as o force index (primary) where o.seq in :seqs;

-- name: receive
-- Waits for a transaction that is receiving the same message.
insert into headrace_inbox (consumer, message_id, nonce, received_at) values (:consumer, :message_id, :nonce, :moment)
on duplicate key update consumer = headrace_inbox.consumer;

-- name: receipt
-- Read with a lock: the caller's transaction may look at an older state.
select nonce from headrace_inbox where consumer = :consumer and message_id = :message_id for update;

-- name: old_received
select consumer, message_id from headrace_inbox where received_at <= :before
order by received_at limit :limit for update skip locked;

-- name: forget
delete from headrace_inbox where consumer = :consumer and message_id = :message_id;
