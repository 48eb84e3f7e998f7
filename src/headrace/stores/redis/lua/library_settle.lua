-- Purpose: what settle.lua and settle_more.lua share: the quick way to end many claims. It is put behind library.lua.
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

