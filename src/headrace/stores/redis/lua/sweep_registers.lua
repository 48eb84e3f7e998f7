-- Purpose: forget registers whose time is over.
--
-- KEYS: of no queue: registers, registers_names, registers_until (see amend.lua).
-- ARGV: now or '', most registers. Answer: how many went, 1 when some are left.

local now = store_now(ARGV[1])
local over = call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'LIMIT', 0, ARGV[2])
many('HDEL', KEYS[1], over)
many('ZREM', KEYS[2], over)
many('ZREM', KEYS[3], over)
return {#over, call('ZCOUNT', KEYS[3], '-inf', now) > 0 and 1 or 0}
