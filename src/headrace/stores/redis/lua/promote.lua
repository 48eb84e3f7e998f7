-- Purpose: make due jobs of one or more queues ready.
--
-- KEYS: per queue the queue's (see library.lua). Touched: ready due waiting meta wake.
-- ARGV: now or '', how many queues, most jobs. Answer: how many became ready.

local now, left, total = store_now(ARGV[1]), tonumber(ARGV[3]), 0
for i = 1, tonumber(ARGV[2]) do
  local queue = queue_at(i - 1)
  local count = 0
  if left > 0 then
    allow_when_full(queue)
    count = promote(queue, now, left)
  end
  if count > 0 then
    ring(queue)
  end
  total, left = total + count, left - count
end
return total
