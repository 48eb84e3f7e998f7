-- The outbox, its relays and its operators; and the inbox. Rows are looked up by their numbers, whatever the statistics: `any`
-- for the reason that settle.sql gives; `+ interval '0'`: no index of rows that are not out serves.

-- name: moment
select coalesce(:now::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint);

-- name: add
-- In the order of the events, which is the order of their numbers.
insert into headrace_outbox (id, event_type, aggregate_type, aggregate_id, payload, headers, status, created_at, due_us)
select n.id, n.event_type, n.aggregate_type, n.aggregate_id, n.payload::json, n.headers::json, :status,
    timestamp 'epoch' + c.now * interval '1 microsecond', c.now
from unnest(
    :ids::uuid[], :event_types::text[], :aggregate_types::text[], :aggregate_ids::text[], :payloads::text[], :headers::text[]
) with ordinality as n (id, event_type, aggregate_type, aggregate_id, payload, headers, nth)
cross join (
    select coalesce(:now::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint) as now
) as c
order by n.nth
on conflict (id) do nothing;

-- name: is_cdc
select exists (select 1 from headrace_outbox where status = 'cdc');

-- name: due
-- The first rows whose turn it is and that nobody else is looking at; whether an older one of the aggregate is not out.
-- A program that is not ours may have written a time without an end, which is no number.
select e.seq, case when isfinite(e.created_at) then (extract(epoch from e.created_at) * 1000000)::bigint else 0 end, exists (
    select 1 from headrace_outbox as o
    where o.aggregate_type = e.aggregate_type and o.aggregate_id = e.aggregate_id and o.published_at is null
        and o.seq < e.seq
)
from headrace_outbox as e
where e.status = 'pending' and e.due_us <= :now
order by e.due_us, e.seq limit :limit for update of e skip locked;

-- name: rows
-- The first :each rows of the aggregates that these heads begin.
select r.seq, r.id::text, r.event_type, r.aggregate_type, r.aggregate_id, r.payload::text, r.headers::text,
    case when isfinite(r.created_at) then (extract(epoch from r.created_at) * 1000000)::bigint else 0 end, r.attempts,
    r.status = 'parked', r.owner, r.due_us
from headrace_outbox as h cross join lateral (
    select s.* from headrace_outbox as s
    where s.aggregate_type = h.aggregate_type and s.aggregate_id = h.aggregate_id and s.published_at is null
    order by s.seq limit :each
) as r
where h.seq = any(:heads::bigint[]);

-- name: hold
update headrace_outbox set owner = :owner, due_us = :until_us where seq = any(:heads::bigint[]);

-- name: put_off
-- What is ahead of a row may have gone out since it was looked at: then its turn has come.
update headrace_outbox as e set due_us = n.due_us
from unnest(:seqs::bigint[], :dues::bigint[]) as n (seq, due_us)
where e.seq = any (array[n.seq, n.seq]) and exists (
    select 1 from headrace_outbox as o
    where o.aggregate_type = e.aggregate_type and o.aggregate_id = e.aggregate_id and o.published_at is null
        and o.seq < e.seq
    offset 0
);

-- name: next_due
select due_us from headrace_outbox where status = 'pending' order by due_us limit 1;

-- name: held
-- Which of these heads are still the owner's.
select seq from headrace_outbox where seq = any(:heads::bigint[]) and owner = :owner and status = 'pending' for update;

-- name: publish
update headrace_outbox as e set status = 'published', owner = null, note = n.note,
    published_at = timestamp 'epoch' + :now::bigint * interval '1 microsecond'
from unnest(:seqs::bigint[], :notes::text[]) as n (seq, note)
where e.seq = any (array[n.seq, n.seq]) and e.published_at + interval '0' is null;

-- name: put_back
update headrace_outbox as e
set status = n.status, attempts = e.attempts + n.failures, due_us = n.due_us, owner = null, note = n.note
from unnest(:seqs::bigint[], :statuses::text[], :failures::integer[], :dues::bigint[], :notes::text[])
    as n (seq, status, failures, due_us, note)
where e.seq = any (array[n.seq, n.seq]) and e.published_at + interval '0' is null;

-- name: wake
-- The next row of these heads' aggregates need not wait until it is looked at again. It is written also when it is due:
-- a relay that is about to put it off holds its lock, and this waits for that.
-- The next rows are found first, once for each head, whatever the planner thinks of the numbers.
with next (seq) as materialized (
    select (
        select s.seq from headrace_outbox as s
        where s.aggregate_type = h.aggregate_type and s.aggregate_id = h.aggregate_id and s.published_at is null
        order by s.seq limit 1
    )
    from headrace_outbox as h where h.seq = any(:heads::bigint[])
)
update headrace_outbox as e set due_us = least(e.due_us, :now)
where e.seq = any(array(select n.seq from next as n where n.seq is not null))
    and e.status = 'pending' and e.owner is null;

-- name: count
select (select count(*) from headrace_outbox where status = 'pending'),
    (select count(*) from headrace_outbox where status = 'parked'),
    (select count(*) from headrace_outbox where status = 'published'),
    (select count(*) from headrace_outbox where status = 'cdc'),
    (
        select (extract(epoch from min(created_at)) * 1000000)::bigint
        from headrace_outbox where status = 'pending' and isfinite(created_at)
    );

-- name: lags
select (extract(epoch from published_at - created_at) * 1000000)::bigint from headrace_outbox
where status = 'published' and published_at is not null and isfinite(created_at) order by published_at desc limit 100;

-- name: parked
select seq, id::text, event_type, aggregate_type, aggregate_id,
    case when isfinite(created_at) then (extract(epoch from created_at) * 1000000)::bigint else 0 end, attempts, note
from headrace_outbox where status = 'parked' order by seq limit :limit;

-- name: retry
update headrace_outbox set status = 'pending', attempts = 0, due_us = :now, owner = null
where status = 'parked' and (:every::boolean or id::text = any(:ids::text[]))
returning seq;

-- name: skip
update headrace_outbox set status = 'published', note = 'skipped',
    published_at = timestamp 'epoch' + :now::bigint * interval '1 microsecond'
where status = 'parked' and id::text = any(:ids::text[])
returning seq;

-- name: prune_published
-- The rows as one array, here and below: a plan that joins them may read them again for each row, and each time skips those
-- that it has locked itself, so that it deletes more than the limit.
delete from headrace_outbox where seq = any (array(
    select seq from headrace_outbox
    where status = 'published' and published_at <= timestamp 'epoch' + :before::bigint * interval '1 microsecond'
    order by published_at limit :limit for update skip locked
))
returning seq;

-- name: prune_cdc
delete from headrace_outbox where seq = any (array(
    select seq from headrace_outbox
    where status = 'cdc' and created_at <= timestamp 'epoch' + :before::bigint * interval '1 microsecond'
    order by created_at limit :limit for update skip locked
))
returning seq;

-- name: receive
-- Waits for a transaction that is receiving the same message.
insert into headrace_inbox (consumer, message_id, nonce, received_at)
select :consumer, :message_id, :nonce, timestamp 'epoch' + interval '1 microsecond' * coalesce(
    :now::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint
)
on conflict (consumer, message_id) do nothing
returning 1;

-- name: prune_inbox
delete from headrace_inbox where ctid = any (array(
    select ctid from headrace_inbox
    where received_at <= timestamp 'epoch' + :before::bigint * interval '1 microsecond'
    order by received_at limit :limit for update skip locked
))
returning 1;
