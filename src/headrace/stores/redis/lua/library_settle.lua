-- Purpose: what settle.lua and settle_more.lua share: the quick ways to end many claims. It is put behind library.lua.
--
-- KEYS: the queue's, held:WORKER. ARGV: from `first` on `size` ids, then their tokens (18 digits).

-- Those of the ids that may end, and of these: by the length of their tombstones, and tokens ahead of the clock. `guard`
-- may refuse.
local function valid_ones(queue, held, first, size, now, answers, guard)
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

-- Outcomes that succeeded and are not kept, all in one go; `answers` is added to.
local function settle_plain(queue, held, first, size, now, answers, guard)
  local valid, short, day, ahead = valid_ones(queue, held, first, size, now, answers, guard)
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

-- What is to be known of `size` jobs that park: rows of held, entries of state, and whether any job was cancelled.
local function known_of(queue, held, first, size)
  local rows, states = call('HMGET', held, unpack(ARGV, first, first + size - 1)), {}
  if call('EXISTS', queue.state) == 1 then
    states = call('HMGET', queue.state, unpack(ARGV, first, first + size - 1))
  end
  return rows, states, call('EXISTS', queue.cancels) == 1
end

-- Outcomes that park for one reason and leave the trail, in one go but for those that are stale, cancelled or lost;
-- `answers` is added to. The same as settle() does, see there.
local function settle_parked(queue, held, first, size, change, now, answers)
  local rows, states, cancels = known_of(queue, held, first, size)
  local moment, reason = digits(now), sub(change.reason, 1, 9999)
  reason = string.format('%04d', #reason) .. reason
  local ids, orders, entries, after = {}, {}, {}, {}
  for i = 1, size do
    local id, token, row, count = ARGV[first + i - 1], ARGV[first + size + i - 1], rows[i], #ids
    local own, _, order
    if row and sub(row, 1, 18) == token then
      own, _, _, order = read_row(row)
    end
    if own == token and call('HEXISTS', queue.jobs, id) == 1
      and not (cancels and call('HEXISTS', queue.cancels, id) == 1) then
      -- without an entry its token is the moment when it was created, and that is its base
      local base, trail, raw = token, '', states[i]
      if raw then
        raw = as_state(raw)
        base, trail = sub(raw, 37, 54), sub(raw, 59 + tonumber(sub(raw, 55, 58)))
      end
      ids[count + 1] = id
      orders[2 * count + 1], orders[2 * count + 2] = order, id
      entries[2 * count + 1], entries[2 * count + 2] = 0, reason .. parked_place(order, id)
      after[2 * count + 1] = id
      after[2 * count + 2] = (token < moment and moment or digits(tonumber(token) + 1))
        .. moment .. base .. reason .. trail
      answers[#answers + 1] = 1
    else
      answers[#answers + 1] = settle(queue, held, id, token, change, now)
    end
  end
  many('HDEL', held, ids) -- a freeing write comes first (B036)
  many('ZREM', queue.running, ids)
  many('ZADD', queue.parked, orders)
  many('ZADD', queue.parked_for, entries)
  many('HSET', queue.state, after)
end

-- Groups of such outcomes: of each how many, the reason, how long they are kept if they were cancelled meanwhile, ids and
-- tokens (18 digits). Where the arguments behind them begin.
local function settle_parked_groups(queue, held, at, groups, now, answers)
  for _ = 1, groups do
    local size, change = tonumber(ARGV[at]), {
      outcome = 'parked', delay = 0, keep = tonumber(ARGV[at + 2]), reason = ARGV[at + 1], trail = '',
    }
    settle_parked(queue, held, at + 3, size, change, now, answers)
    at = at + 3 + 2 * size
  end
  return at
end
