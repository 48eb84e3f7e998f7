-- Purpose: store one plain job, the case of a web request; whatever is unusual is left to enqueue.lua, untouched.
--
-- It stands alone, without library.lua, and is handed few keys: that halves what one enqueue costs the server.
--
-- KEYS: jobs ready due meta wake short0 short1 day0 day1 of the queue, in this order (see library.lua).
-- ARGV: now or '', id, record without its two times.
-- Answer: 1 when it is new, 0 when something else must be looked at: the id is or was here, jobs are due, or a
--   token was ahead of the clock.
--
-- B036: the first write (HINCRBY) needs memory, so a full server refuses here, before anything is changed.

local call, id, record = redis.call, ARGV[2], ARGV[3]
local now = tonumber(ARGV[1])
if not now then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
local head = call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')[2]
if head and tonumber(head) <= now then
  return 0
end
for i = 6, 9 do
  if call('HEXISTS', KEYS[i], id) == 1 then
    return 0
  end
end
local floor = call('HGET', KEYS[4], 'floor')
if floor and (tonumber(floor) or now) >= now then
  return 0
end
local created, place = string.format('%018.0f', now), call('HINCRBY', KEYS[4], 'place', 1)
if call('HSETNX', KEYS[1], id, created .. created .. record) == 0 then
  return 0
end
call('ZADD', KEYS[2], tonumber(string.sub(record, 1, 3)) * 17592186044416 + place, id)
if call('LLEN', KEYS[5]) == 0 then
  call('RPUSH', KEYS[5], '1')
end
return 1
