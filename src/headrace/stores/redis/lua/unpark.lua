-- Purpose: make parked jobs of a reason ready in their old places, queue by queue those that are first in line.
--
-- KEYS: per queue the queue's (see library.lua).
--       Touched: jobs state ready meta wake parked parked_for, and to find a job running and due.
-- ARGV: 1 to take the entries as they are or 0, reason, most jobs, how many queues.
-- Answer: how many there were; then the queues, from 0, whose entries must be mended before there are more of them (see
--   mend_parked.lua).

local reason, left = sub(ARGV[2], 1, 9999), tonumber(ARGV[3])
local head = string.format('%04d', #reason) .. reason
local strict, answer = ARGV[1] == '0', {0}

for i = 0, ARGV[4] - 1 do
  if strict and is_crooked(queue_at(i)) then
    answer[#answer + 1] = i
  end
end
if #answer > 1 then
  return answer
end

-- Its place in `ready`; nil where it is to be dropped only: it is not parked but says so, or the server has lost it.
local function order_of(queue, id)
  local where, order = place_of(queue, id)
  if where ~= 'parked' then
    return nil
  end
  if call('HEXISTS', queue.jobs, id) == 0 then
    call('HDEL', queue.state, id)
    return nil
  end
  return as_order(order)
end

-- How many; whether there was an entry to look at, and one that is no job's.
local function unpark(queue, most)
  local count, ready, ids, entries, wrong = 0, {}, {}, {}, false
  for _, entry in ipairs(call('ZRANGEBYLEX', queue.parked_for, '[' .. head, '(' .. head .. ':', 'LIMIT', 0, most)) do
    local own, id = parts_of(entry)
    if own == head then -- else another program has spoiled their order
      entries[#entries + 1] = entry
      if entry ~= entry_of(queue, id) then
        wrong = true
      else
        ids[#ids + 1] = id
        local order = order_of(queue, id)
        if order then
          ready[2 * count + 1], ready[2 * count + 2] = order, id
          count = count + 1
        end
      end
    end
  end
  many('ZREM', queue.parked_for, entries) -- freeing writes come first (B036)
  many('ZREM', queue.parked, ids)
  many('ZADD', queue.ready, ready)
  return count, #entries > 0, wrong
end

for i = 0, ARGV[4] - 1 do
  local queue, found, crooked = queue_at(i), true, false
  local before = left
  while left > 0 and found and not crooked do
    local count, wrong
    count, found, wrong = unpark(queue, left)
    left, crooked = left - count, strict and wrong
  end
  if left < before then
    ring(queue)
  end
  if crooked then
    answer[2] = i
    break
  end
end
answer[1] = ARGV[3] - left
return answer
