-- Purpose: end claims of one worker in one or more queues, each fenced by its token.
--
-- KEYS: per queue the queue's (see library.lua), then per queue held:WORKER. Touched: all but workers and claims.
-- ARGV: now or '', how many queues; then per queue how many plain and how many other outcomes;
--   then per queue: ids of the plain ones (succeeded, not kept), their tokens (18 digits),
--   and for each other: id, token, outcome, delay, keep, reason, trail ('' leaves it).
-- Answer: in the same order 1 done, 0 stale, 2 running but held by another worker.

local now, count = store_now(ARGV[1]), tonumber(ARGV[2])
local answers = {}

local function settle_plain(queue, held, first, size)
  local valid, short, day, done, ahead = {}, {}, {}, {}, {}
  local moment = digits(now)
  local rows = call('HMGET', held, unpack(ARGV, first, first + size - 1))
  for i = 1, size do
    local id, row = ARGV[first + i - 1], rows[i]
    local token = ARGV[first + size + i - 1]
    if row and sub(row, 1, 18) == token and not done[id] then
      done[id] = true
      valid[#valid + 1] = id
      local grave = sub(row, 19, 19) == '1' and day or short
      grave[#grave + 1] = id
      if token > moment then
        ahead[#ahead + 1] = token
      end
      answers[#answers + 1] = 1
    elseif row or done[id] then
      answers[#answers + 1] = 0
    else
      answers[#answers + 1] = call('ZSCORE', queue.running, id) and 2 or 0
    end
  end
  if #valid == 0 then
    return
  end
  many('HDEL', held, valid) -- a freeing write comes first (B036)
  many('ZREM', queue.running, valid)
  many('HDEL', queue.jobs, valid)
  many('HDEL', queue.state, valid)
  many('HDEL', queue.cancels, valid)
  if call('EXISTS', queue.unique_of) == 1 then
    for _, id in ipairs(valid) do
      free_unique(queue, id)
    end
    many('HDEL', queue.unique_of, valid)
  end
  for _, token in ipairs(ahead) do
    keep_floor(queue, token, now)
  end
  bury(queue, short, now, 'short')
  bury(queue, day, now, 'day')
end

local at = 3 + 2 * count
for i = 1, count do
  local queue, held = queue_at(i - 1), KEYS[count * STRIDE + i]
  local plain, others = tonumber(ARGV[2 * i + 1]), tonumber(ARGV[2 * i + 2])
  if plain > 0 then
    settle_plain(queue, held, at, plain)
  end
  at = at + 2 * plain
  for first = at, at + 7 * others - 1, 7 do
    answers[#answers + 1] = settle(queue, held, ARGV[first], ARGV[first + 1], {
      outcome = ARGV[first + 2], delay = tonumber(ARGV[first + 3]), keep = tonumber(ARGV[first + 4]),
      reason = ARGV[first + 5], trail = ARGV[first + 6],
    }, now)
  end
  at = at + 7 * others
end
return answers
