-- Purpose: replace the body and the trail of a failed job, if its body is still what was seen of it.
--
-- KEYS: the queue's (see library.lua). Touched: jobs state failed, and to find it running ready due parked.
-- ARGV: id, the body as it was, the new one, the new trail.
-- Answer: 1 when it is so (or was before), 0 when the job is not failed or its body is another.

local queue, id, was, body = queue_at(0), ARGV[1], ARGV[2], ARGV[3]
local record = call('HGET', queue.jobs, id)
if not record or place_of(queue, id) ~= 'failed' then
  return 0
end
record = as_record(record)
local size = 44 + tonumber(sub(record, 41, 44))
local now = sub(record, size + 1)
if now ~= was and now ~= body then
  return 0
end
local state = read_state(queue, id)
state.trail = ARGV[4]
call('HSET', queue.jobs, id, sub(record, 1, size) .. body) -- a server that is full refuses here, before any change
write_state(queue, id, state)
return 1
