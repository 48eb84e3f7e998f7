-- Purpose: what is known about some jobs of one queue.
--
-- KEYS: the queue's (see library.lua). Touched: all but workers, claims and meta.
-- ARGV: now or '', 1 with bodies or 0, ids.
-- Answer: now, then per id nothing (an empty list) or: id, where it is, score there, record, state or '', its
--   unique_of or '', 1 when it is to be cancelled.

local queue, now, bodies = queue_at(0), store_now(ARGV[1]), ARGV[2] == '1'
local answer = {digits(now)}
for i = 3, #ARGV do
  local id, row = ARGV[i], {}
  local record = call('HGET', queue.jobs, id)
  local where, score = place_of(queue, id)
  if record and where then
    record = as_record(record)
    local state = call('HGET', queue.state, id)
    if not bodies then
      record = sub(record, 1, 44 + tonumber(sub(record, 41, 44)))
    end
    row = {
      id, where, score, record, state and as_state(state) or '', call('HGET', queue.unique_of, id) or '',
      call('HEXISTS', queue.cancels, id),
    }
  end
  answer[i - 1] = row
end
return answer
