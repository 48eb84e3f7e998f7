-- Purpose: end claims of one worker in one or more queues, each fenced by its token.
--
-- KEYS: per queue the queue's (see library.lua), then per queue held:WORKER. Touched: all but workers and claims.
-- ARGV: now or '', how many queues; then per queue how many plain, how many guarded and how many other outcomes;
--   then per queue: ids of the plain ones (succeeded, not kept), their tokens (18 digits); of the guarded ones (plain, and a
--   once record is done) ids, tokens, fields of `once`, fences (18 digits), how long they are kept (us), + and results or -;
--   and for each other: id, token, outcome, delay, keep, reason, trail ('' leaves it), field of `once` or '', and where
--   there is one its fence, new state, how long it is kept, + and result or -; how many jobs follow, and 4 arguments for
--   each of them as in enqueue.lua.
-- Answer: in the same order 1 done, 0 stale (or the once record is not this job's), 2 running but held by another worker.

local now, count = store_now(ARGV[1]), tonumber(ARGV[2])
local answers = {}

-- Those of the ids that may end, by the length of their tombstone; those whose token is ahead of the clock.
local function valid_ones(queue, held, first, size, guard)
  local valid, short, day, done, ahead = {}, {}, {}, {}, {}
  local moment = digits(now)
  local rows = call('HMGET', held, unpack(ARGV, first, first + size - 1))
  for i = 1, size do
    local id, row = ARGV[first + i - 1], rows[i]
    local token = ARGV[first + size + i - 1]
    if row and sub(row, 1, 18) == token and not done[id] and (not guard or guard(i, id, token)) then
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
  return valid, short, day, ahead
end

local function settle_plain(queue, held, first, size, guard)
  local valid, short, day, ahead = valid_ones(queue, held, first, size, guard)
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

-- Plain ones, whose once records are done with them.
local function settle_guarded(queue, held, first, size)
  local at, records, untils = first + 2 * size - 1, {}, {}
  local raws = call('HMGET', queue.once, unpack(ARGV, at + 1, at + size))
  settle_plain(queue, held, first, size, function(i, id, token)
    local field, forgotten = ARGV[at + i], now + tonumber(ARGV[at + 2 * size + i])
    local ended = ended_once(raws[i], id, token, ARGV[at + size + i], '2', forgotten, ARGV[at + 3 * size + i])
    if ended and ended ~= raws[i] then
      records[#records + 1], records[#records + 2] = field, ended
      untils[#untils + 1], untils[#untils + 2] = forgotten, field
    end
    return ended
  end)
  many('HSET', queue.once, records)
  many('ZADD', queue.once_until, untils)
end

-- Its answer is entered; where the arguments of the next one begin.
local function settle_other(queue, held, at)
  local id, token, outcome, field = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 7]
  local change = {
    outcome = outcome, delay = tonumber(ARGV[at + 3]), keep = tonumber(ARGV[at + 4]),
    reason = ARGV[at + 5], trail = ARGV[at + 6],
  }
  local raw, ended, forgotten
  if field ~= '' then
    raw, forgotten = call('HGET', queue.once, field), now + tonumber(ARGV[at + 10])
    ended = ended_once(raw, id, token, ARGV[at + 8], ARGV[at + 9], forgotten, ARGV[at + 11])
    at = at + 4
  end
  local code, following = 0, tonumber(ARGV[at + 8])
  if field == '' or ended then
    code = settle(queue, held, id, token, change, now)
  end
  if code == 1 and ended and ended ~= raw then
    call('HSET', queue.once, field, ended)
    call('ZADD', queue.once_until, forgotten, field)
  end
  if code == 1 and following > 0 and ENDS[outcome] then
    enqueue(queue, now, at + 9, following, 4)
  end
  answers[#answers + 1] = code
  return at + 9 + 4 * following
end

local at = 3 + 3 * count
for i = 1, count do
  local queue, held = queue_at(i - 1), KEYS[count * STRIDE + i]
  local plain, guarded, others = tonumber(ARGV[3 * i]), tonumber(ARGV[3 * i + 1]), tonumber(ARGV[3 * i + 2])
  if plain > 0 then
    settle_plain(queue, held, at, plain)
  end
  at = at + 2 * plain
  if guarded > 0 then
    settle_guarded(queue, held, at, guarded)
  end
  at = at + 6 * guarded
  for _ = 1, others do
    at = settle_other(queue, held, at)
  end
end
return answers
