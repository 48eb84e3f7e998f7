-- Purpose: make parked jobs of a reason ready in their old places, queue by queue those that are first in line.
--
-- KEYS: per queue the queue's (see library.lua).
--       Touched: jobs state ready meta wake parked parked_for, and to find a job running and due.
-- ARGV: 1 to take the entries as they are or 0, reason, most jobs, how many queues.
-- Answer: how many there were; or 0 and the queues, from 0, whose entries must be mended before (see mend_parked.lua).

local reason, left = sub(ARGV[2], 1, 9999), tonumber(ARGV[3])
local head = string.format('%04d', #reason) .. reason
local answer = {0}

for i = 0, ARGV[1] == '0' and ARGV[4] - 1 or -1 do
  if is_crooked(queue_at(i)) then
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

local function unpark(queue, most)
  local count, ready, ids, entries = 0, {}, {}, {}
  for _, entry in ipairs(call('ZRANGEBYLEX', queue.parked_for, '[' .. head, '(' .. head .. ':', 'LIMIT', 0, most)) do
    local own, id = parts_of(entry)
    if own == head then -- else another program has spoiled their order
      entries[#entries + 1] = entry
      if entry == entry_of(queue, id) then
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
  return count, #entries
end

for i = 0, ARGV[4] - 1 do
  local queue, total, looked = queue_at(i), 0, 0
  while left > 0 do
    local count
    count, looked = unpark(queue, left)
    total, left = total + count, left - count
    if looked == 0 then
      break
    end
  end
  if total > 0 then
    ring(queue)
  end
  answer[1] = answer[1] + total
end
return answer
