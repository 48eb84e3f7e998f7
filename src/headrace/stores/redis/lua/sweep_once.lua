-- Purpose: forget once records of leases whose time is over; sweep.lua does it for those of a queue.
--
-- KEYS: once and once_until of no queue. ARGV: now or '', most records. Answer: how many went, 1 when some are left.

local gone, left = forget_once({once = KEYS[1], once_until = KEYS[2]}, store_now(ARGV[1]), tonumber(ARGV[2]))
return {gone, left and 1 or 0}
