-- Purpose: end a once record that is held by a lease: store what came of it, or give it back.
--
-- KEYS: once and once_until of no queue.
-- ARGV: now or '', field (scope, NUL, key), owner, fence (18 digits), new state, how long it is kept (us), + and the
--   result, or -. Answer: 1, or 0 where the record is not this owner's.

local now, field = store_now(ARGV[1]), ARGV[2]
local raw, forgotten = call('HGET', KEYS[1], field), digits(now + tonumber(ARGV[6]))
local ended = ended_once(raw, ARGV[3], NO_TOKEN, ARGV[4], ARGV[5], forgotten, ARGV[7])
if not ended then
  return 0
end
if ended ~= raw then
  call('HDEL', KEYS[1], '-') -- B036: no field is named so, but what frees memory lets the next ones through
  call('HSET', KEYS[1], field, ended)
  call('ZADD', KEYS[2], forgotten, field)
end
return 1
