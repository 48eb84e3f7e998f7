-- Purpose: give jobs of workers back with new trails: rescued from dead workers, unknown to a live one, or left.
--
-- All jobs of a dead worker go in one call: one that is rescued later would look as if it had been alone with it.
--
-- KEYS: per queue the queue's (see library.lua), then held:WORKER per holding (a worker in a queue).
--       Touched: all but succeeded and expired.
-- ARGV: now or '', mode, reason, the last moment at which leases are believed, how many queues, how many holdings;
--   per holding the index of its queue from 0, the worker, how many jobs; then per job of each holding: id, token (18 digits), trail.
--   mode rescue: only while the worker's lease is over or missing, then unregister it when it holds nothing more;
--   mode leave: unregister it when it holds nothing more; mode beat: just give back.
-- Answer: per holding how many jobs it has still (-1: its worker lives again or the moment is past, nothing was
--   changed), then 1 or 0 per job.

local now, mode, reason = store_now(ARGV[1]), ARGV[2], ARGV[3]
local queues, holdings = tonumber(ARGV[5]), tonumber(ARGV[6])
local until_ = tonumber(ARGV[4])

local function lives(queue, worker)
  if mode ~= 'rescue' then
    return false
  end
  local lease = call('ZSCORE', queue.workers, worker)
  return now > until_ or (lease and tonumber(lease) > now)
end

local function give_back(queue, held, worker, first, count)
  if lives(queue, worker) then
    return {-1}
  end
  local codes = {0}
  for at = first, first + 3 * count - 3, 3 do
    codes[#codes + 1] = settle(queue, held, ARGV[at], ARGV[at + 1], {
      outcome = 'ready', delay = 0, keep = 86400000000, -- a day, for one that was asked to cancel: it ends here
      reason = reason, trail = ARGV[at + 2],
    }, now) == 1 and 1 or 0
  end
  codes[1] = call('HLEN', held)
  if codes[1] == 0 and mode ~= 'beat' then
    call('ZREM', queue.workers, worker)
    call('HDEL', queue.claims, worker)
  end
  return codes
end

local answers, at = {}, 7 + 3 * holdings
for i = 1, holdings do
  local queue, worker = queue_at(tonumber(ARGV[4 + 3 * i])), ARGV[5 + 3 * i]
  local count = tonumber(ARGV[6 + 3 * i])
  answers[i] = give_back(queue, KEYS[queues * STRIDE + i], worker, at, count)
  at = at + 3 * count
end
return answers
