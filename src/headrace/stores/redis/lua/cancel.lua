-- Purpose: cancel a waiting job at once, or ask the worker of a running one.
--
-- KEYS: the queue's (see library.lua). Touched: jobs state ready due waiting running parked parked_for meta
--       short0/1 day0/1 cancelled kept uniques unique_of cancels.
-- ARGV: now or '', id, keep in us. Answer: cancelled, requested, finished or absent.

local queue, now, id, keep = queue_at(0), store_now(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local record = call('HGET', queue.jobs, id)
if not record then
  return known_ids(queue, {id}, now)[1] and 'finished' or 'absent'
end
local where, score = place_of(queue, id)
if where == 'running' then
  allow_when_full(queue)
  call('HSET', queue.cancels, id, '1')
  return 'requested'
end
if ENDS[where] then
  return 'finished'
end
local state = read_state(queue, id)
if where == 'parked' then
  call('ZREM', queue.parked_for, parked_entry(state.reason, as_order(score), id))
end
state.reason = 'cancelled'
call('ZREM', queue.ready, id)
call('ZREM', queue.due, id)
call('ZREM', queue.parked, id)
call('HDEL', queue.waiting, id)
finish(queue, id, state, 'cancelled', now, keep, sub(record, 40, 40) == '1')
return 'cancelled'
