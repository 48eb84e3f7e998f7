-- Purpose: the workers of one or more queues whose lease is over.
--
-- KEYS: per queue the queue's (see library.lua). Touched: workers.
-- ARGV: now or '', how many queues. Answer: now, then per queue their names, at most 1000.

local now = store_now(ARGV[1])
local answer = {digits(now)}
for i = 1, tonumber(ARGV[2]) do
  answer[i + 1] = call('ZRANGEBYSCORE', queue_at(i - 1).workers, '-inf', now, 'LIMIT', 0, 1000)
end
return answer
