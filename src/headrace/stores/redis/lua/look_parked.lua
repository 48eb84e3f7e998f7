-- Purpose: why jobs of one or more queues are parked; the cost does not grow with the number of jobs.
--
-- KEYS: per queue the queue's (see library.lua). Touched: jobs state parked parked_for.
-- ARGV: 1 to take the entries as they are or 0, 1 to count the jobs of each reason or 0, how many queues.
-- Answer: per queue its reasons, each with its number of jobs or nil; or nil where its entries must be mended before (see
--   mend_parked.lua).

local strict, counting = ARGV[1] == '0', ARGV[2] == '1'

-- From the first entry of a reason right behind the last one.
local function reasons(queue)
  if strict and is_crooked(queue) then
    return false
  end
  local found, from = {}, '-'
  while true do
    local entry = call('ZRANGEBYLEX', queue.parked_for, from, '+', 'LIMIT', 0, 1)[1]
    if not entry then
      return found
    end
    local head, id = parts_of(entry)
    if head and entry == entry_of(queue, id) then
      local jobs = counting and call('ZLEXCOUNT', queue.parked_for, '[' .. entry, '(' .. head .. ':')
      found[#found + 1] = {sub(head, 5), jobs}
      from = '(' .. head .. ':'
    elseif strict then
      return false
    else
      from = '(' .. entry
    end
  end
end

local answers = {}
for i = 1, tonumber(ARGV[3]) do
  answers[i] = reasons(queue_at(i - 1))
end
return answers
