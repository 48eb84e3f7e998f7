-- Purpose: delete jobs of one queue that ended and are kept.
--
-- KEYS: the queue's (see library.lua). Touched: jobs state short0/1 day0/1 failed succeeded cancelled expired kept unique_of.
-- ARGV: '' for any, or failed for failed ones only; 1 to forget the tombstones as well or 0; ids.
-- Answer: per id 1 when it was deleted, else 0.

local queue, answers = queue_at(0), {}

local function forget(id)
  local where = place_of(queue, id)
  if not where or not ENDS[where] or (ARGV[1] ~= '' and where ~= ARGV[1]) then
    return 0
  end
  call('ZREM', queue[where], id)
  call('ZREM', queue.kept, id)
  call('HDEL', queue.jobs, id)
  call('HDEL', queue.state, id)
  call('HDEL', queue.unique_of, id)
  if ARGV[2] == '1' then
    forget_tombstones(queue, id)
  end
  return 1
end

for at = 3, #ARGV do
  answers[at - 2] = forget(ARGV[at])
end
return answers
