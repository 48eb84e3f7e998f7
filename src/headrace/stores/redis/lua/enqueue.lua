-- Purpose: store the jobs of one queue, all or none; idempotent by id.
--
-- KEYS: the queue's (see library.lua). Touched: jobs state ready due waiting meta short0/1 day0/1 uniques unique_of wake.
-- ARGV: now or '', 2 or 4 (arguments per job), then per job:
--   id, record without its two times, and with 4: when, unique
--   when: '' at once, '+N' after N us, '=N' at N (18 digits). unique: '' or a value of unique_of.
-- Answer: 1 when all are new, else per job 0 (new), 1 (exists) or the id that holds its unique key.

local queue, now, step = queue_at(0), store_now(ARGV[1]), tonumber(ARGV[2])
local answers, all_new = enqueue(queue, now, 3, (#ARGV - 2) / step, step)
return all_new and 1 or answers
