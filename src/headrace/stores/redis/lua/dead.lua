-- Purpose: the workers of one or more queues whose lease is over.
--
-- KEYS: per queue the queue's (see library.lua). Touched: workers.
-- ARGV: now or '', the last moment at which leases are believed, how many queues.
-- Answer: now, then per queue their names, at most 1000.

local now = store_now(ARGV[1])
local until_, answer = tonumber(ARGV[2]), {digits(now)}
for i = 1, tonumber(ARGV[3]) do
  local queue, names = queue_at(i - 1), {}
  for _, name in ipairs(now <= until_ and call('ZRANGEBYSCORE', queue.workers, '-inf', now, 'LIMIT', 0, 1000) or {}) do
    if is_text(name) then
      names[#names + 1] = name
    else -- no worker of ours has such a name; nor could it be named to unregister it
      call('ZREM', queue.workers, name)
    end
  end
  answer[i + 1] = names
end
return answer
