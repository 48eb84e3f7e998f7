-- Purpose: bring parked_for in line with the jobs that are parked, a piece at a time.
--
-- KEYS: the queue's (see library.lua). Touched: jobs state meta parked parked_for.
-- ARGV: the list to go through, cursor. parked: write the entry of each job; parked_for: drop those that are no job's.
-- Answer: the next cursor, 0 at the end.

local queue, list = queue_at(0), ARGV[1]
local step = call('ZSCAN', queue[list], ARGV[2], 'COUNT', 1000)
local entries, wrong = {}, {}
for i = 1, #step[2], 2 do
  local member = step[2][i]
  if list == 'parked' then
    entries[i], entries[i + 1] = 0, entry_of(queue, member)
  else
    local head, id = parts_of(member)
    if not head or member ~= entry_of(queue, id) then
      wrong[#wrong + 1] = member
    end
  end
end
allow_when_full(queue)
many('ZADD', queue.parked_for, entries)
many('ZREM', queue.parked_for, wrong)
return step[1]
