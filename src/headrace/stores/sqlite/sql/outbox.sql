-- The outbox, its relays and its operators; and the inbox.

-- name: add
-- Bound by position, so that many rows go at once.
insert into headrace_outbox (
    id, event_type, aggregate_type, aggregate_id, payload, headers, status, created_at, due_us
) values (?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict (id) do nothing;

-- name: is_cdc
select exists (select 1 from headrace_outbox where status = 'cdc');

-- name: due
-- The first rows whose turn it is; `blocked`: an older one of the same aggregate is not yet out.
select e.seq, cast(e.created_at as integer), exists (
    select 1 from headrace_outbox as o
    where o.aggregate_type = e.aggregate_type and o.aggregate_id = e.aggregate_id and o.published_at is null
        and o.seq < e.seq
)
from headrace_outbox as e
where e.status = 'pending' and e.due_us <= :now
order by e.due_us, e.seq limit :limit;

-- name: rows
-- The first :each rows of the aggregates that these heads begin. Cast, for a program that wrote values of other types.
select r.seq, cast(r.id as blob), cast(r.event_type as blob), cast(r.aggregate_type as blob), cast(r.aggregate_id as blob),
    cast(r.payload as blob), cast(r.headers as blob), cast(r.created_at as integer), cast(r.attempts as integer), r.status = 'parked', r.owner, r.due_us
from json_each(:heads) as n
cross join headrace_outbox as h on h.seq = n.value
cross join headrace_outbox as r on r.seq in (
    select s.seq from headrace_outbox as s
    where s.aggregate_type = h.aggregate_type and s.aggregate_id = h.aggregate_id and s.published_at is null
    order by s.seq limit :each
);

-- name: hold
update headrace_outbox set owner = :owner, due_us = :until_us where seq in (select value from json_each(:heads));

-- name: put_off
-- Bound by position: when to look again, seq.
update headrace_outbox set due_us = ? where seq = ?;

-- name: next_due
select due_us from headrace_outbox where status = 'pending' and typeof(due_us) = 'integer' order by due_us limit 1;

-- name: held
-- Which of these heads are still the owner's.
select seq from headrace_outbox
where seq in (select value from json_each(:heads)) and owner = :owner and status = 'pending';

-- name: publish
update headrace_outbox set status = 'published', published_at = :now, owner = null, note = ''
where seq in (select value from json_each(:seqs)) and published_at is null;

-- name: annotate
-- Bound by position: note, seq.
update headrace_outbox set note = ? where seq = ?;

-- name: put_back
-- Bound by position: status, failures, when it is due, note, seq.
update headrace_outbox set status = ?, attempts = attempts + ?, due_us = ?, owner = null, note = ?
where seq = ? and published_at is null;

-- name: wake
-- The next row of these heads' aggregates need not wait until it is looked at again.
update headrace_outbox set due_us = :now
where due_us > :now and owner is null and seq in (
    select (
        select s.seq from headrace_outbox as s
        where s.aggregate_type = h.aggregate_type and s.aggregate_id = h.aggregate_id and s.published_at is null
        order by s.seq limit 1
    )
    from json_each(:heads) as n cross join headrace_outbox as h on h.seq = n.value
);

-- name: count
select (select count(*) from headrace_outbox where status = 'pending'),
    (select count(*) from headrace_outbox where status = 'parked'),
    (select count(*) from headrace_outbox where status = 'published'),
    (select count(*) from headrace_outbox where status = 'cdc'),
    (select min(cast(created_at as integer)) from headrace_outbox where status = 'pending');

-- name: lags
select published_at - created_at from headrace_outbox
where status = 'published' and published_at is not null order by published_at desc limit 100;

-- name: parked
select seq, cast(id as text), cast(event_type as text), cast(aggregate_type as text), cast(aggregate_id as text),
    cast(created_at as integer), cast(attempts as integer), note
from headrace_outbox where status = 'parked' order by seq limit :limit;

-- name: retry
update headrace_outbox set status = 'pending', attempts = 0, due_us = :now, owner = null
where status = 'parked' and (:every or cast(id as text) in (select value from json_each(:ids)))
returning seq;

-- name: skip
update headrace_outbox set status = 'published', published_at = :now, note = 'skipped'
where status = 'parked' and cast(id as text) in (select value from json_each(:ids))
returning seq;

-- name: prune_published
delete from headrace_outbox where seq in (
    select seq from headrace_outbox where status = 'published' and published_at <= :before order by published_at limit :limit
)
returning seq;

-- name: prune_cdc
delete from headrace_outbox where seq in (
    select seq from headrace_outbox where status = 'cdc' and created_at <= :before order by created_at limit :limit
)
returning seq;

-- name: receive
insert into headrace_inbox (consumer, message_id, nonce, received_at) values (:consumer, :message_id, :nonce, :now)
on conflict (consumer, message_id) do nothing;

-- name: receipt
select nonce from headrace_inbox where consumer = :consumer and message_id = :message_id;

-- name: prune_inbox
delete from headrace_inbox where (consumer, message_id) in (
    select consumer, message_id from headrace_inbox where received_at <= :before order by received_at limit :limit
)
returning 1;
