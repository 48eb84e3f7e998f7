-- Purpose: the registers of a range of names, sorted.
--
-- KEYS: of no queue: registers, registers_names, registers_until (see amend.lua). Touched: the first two.
-- ARGV: now or '', from and to (as in ZRANGEBYLEX), most registers. Answer: now, names, entries (nil where there is none).

local names = call('ZRANGEBYLEX', KEYS[2], ARGV[2], ARGV[3], 'LIMIT', 0, ARGV[4])
return {digits(store_now(ARGV[1])), names, fetch(KEYS[1], names)}
