-- Purpose: extend the lease on a once record, also one that is over while nobody has taken the record.
--
-- KEYS: once and once_until of no queue.
-- ARGV: now or '', how long a record is kept whose holder is gone (us), field (scope, NUL, key), owner, lease in us.
-- Answer: 1, or 0 where the record is not this owner's.

local now, field = store_now(ARGV[1]), ARGV[3]
local raw = call('HGET', KEYS[1], field)
local record = raw and read_once(raw)
if not record or record.state ~= HELD or record.token ~= NO_TOKEN or record.owner ~= ARGV[4] then
  return 0
end
local forgotten = now + tonumber(ARGV[2])
call('HDEL', KEYS[1], '-') -- B036: no field is named so, but what frees memory lets the next ones through
call('HSET', KEYS[1], field,
  sub(raw, 1, 36) .. digits(now + tonumber(ARGV[5])) .. digits(forgotten) .. sub(raw, 73))
call('ZADD', KEYS[2], forgotten, field)
return 1
