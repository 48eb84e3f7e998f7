-- Purpose: end claims of one worker in one or more queues, each fenced by its token, where no once record ends with them
-- and no jobs follow; else see settle_more.lua. Most settles are such, and each library that is not there spares some time.
--
-- KEYS: per queue the queue's (see library.lua), then per queue held:WORKER. Touched: all but workers and claims.
-- ARGV: now or '', how many queues; then per queue how many plain outcomes, groups of parked ones, and other outcomes;
--   then per queue: ids of the plain ones (succeeded, not kept), their tokens (18 digits); the groups of parked ones, see
--   library_settle.lua; and for each other: id, token, outcome, delay, keep, reason, trail ('' leaves it).
-- Answer: in the same order 1 done, 0 stale, 2 running but held by another worker.

local now, count = store_now(ARGV[1]), tonumber(ARGV[2])
local answers = {}

local at = 3 + 3 * count
for i = 1, count do
  local queue, held = queue_at(i - 1), KEYS[count * STRIDE + i]
  local plain, parked, others = tonumber(ARGV[3 * i]), tonumber(ARGV[3 * i + 1]), tonumber(ARGV[3 * i + 2])
  if plain > 0 then
    settle_plain(queue, held, at, plain, now, answers)
  end
  at = settle_parked_groups(queue, held, at + 2 * plain, parked, now, answers)
  for first = at, at + 7 * others - 1, 7 do
    answers[#answers + 1] = settle(queue, held, ARGV[first], ARGV[first + 1], {
      outcome = ARGV[first + 2], delay = tonumber(ARGV[first + 3]), keep = tonumber(ARGV[first + 4]),
      reason = ARGV[first + 5], trail = ARGV[first + 6],
    }, now)
  end
  at = at + 7 * others
end
return answers
