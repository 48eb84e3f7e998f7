-- Purpose: drop what is over in one queue: kept jobs, tombstones, unique keys whose job is gone, once records.
--
-- KEYS: the queue's (see library.lua). Touched: jobs state meta short0/1 day0/1 succeeded cancelled expired kept uniques
--       unique_of once once_until.
-- ARGV: now or '', most kept jobs, most unique keys and most once records.
-- Answer: how many kept jobs, unique keys and once records went, 1 when some are left for another call.

local queue, now, limit = queue_at(0), store_now(ARGV[1]), tonumber(ARGV[2])
allow_when_full(queue)
local over = call('ZRANGEBYSCORE', queue.kept, '-inf', now, 'LIMIT', 0, limit)
for _, name in ipairs({'kept', 'succeeded', 'cancelled', 'expired'}) do
  many('ZREM', queue[name], over)
end
for _, name in ipairs({'jobs', 'state', 'unique_of'}) do
  many('HDEL', queue[name], over)
end
for _, kind in ipairs({'short', 'day'}) do
  if call('HEXISTS', queue.meta, kind) == 1 then
    graveyard(queue, now, kind)
  end
end

-- A key outlives its job only where the server lost data; a piece of them is looked at each time.
local cursor = call('HGET', queue.meta, 'sweep') or '0'
local scan = call('HSCAN', queue.uniques, find(cursor, '^%d+$') and #cursor < 20 and cursor or '0', 'COUNT', 1000)
local stray, more = 0, call('ZCOUNT', queue.kept, '-inf', now) > 0
for i = 1, #scan[2], 2 do
  local key, holder = scan[2][i], scan[2][i + 1]
  if (tonumber(sub(holder, 1, 18)) or 0) <= now and call('HEXISTS', queue.jobs, sub(holder, 19)) == 0 then
    if stray < limit then
      call('HDEL', queue.uniques, key)
    end
    stray = stray + 1
  end
end
if stray <= limit then -- else this piece is not done with
  call('HSET', queue.meta, 'sweep', scan[1])
end
more = more or stray > limit or (stray > 0 and scan[1] ~= '0') -- where one is, there are others
local records, left = forget_once(queue, now, limit)
return {#over, math.min(stray, limit), records, (more or left) and 1 or 0}
