-- Purpose: the next ids of one queue in one state, after a position.
--
-- KEYS: the queue's (see library.lua). Touched: ready due running parked failed succeeded cancelled expired.
-- ARGV: now or '', list, newest (1) or oldest (0) first, score and id of the last one seen ('' and '' at the start), limit.
--   list: ready, unpromoted (scheduled, but due), scheduled (not yet due), running, parked, failed, succeeded, cancelled, expired.
-- Answer: now, then id, score, id, score ... at most limit of them; size of the whole list stands second.

local queue, now = queue_at(0), store_now(ARGV[1])
local list, newest = ARGV[2], ARGV[3] == '1'
local last_score, last_id, limit = tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[6])
local key = queue[(list == 'unpromoted' or list == 'scheduled') and 'due' or list]
local answer = {digits(now), call('ZCARD', key)}

local function start()
  if last_score == nil then
    return list == 'scheduled' and call('ZCOUNT', key, '-inf', now) or 0
  end
  if newest then
    return call('ZREVRANK', key, last_id) or call('ZCOUNT', key, '(' .. ARGV[4], '+inf')
  end
  return call('ZRANK', key, last_id) or call('ZCOUNT', key, '-inf', '(' .. ARGV[4])
end

local function is_after(score, id)
  if id == last_id then -- whatever its score: a caller knows it but roughly
    return false
  end
  if last_score == nil or score ~= last_score then
    return true
  end
  if newest then
    return id < last_id
  end
  return id > last_id
end

local at, found = start(), 0
while found < limit do
  local rows = call(newest and 'ZREVRANGE' or 'ZRANGE', key, at, at + limit - 1, 'WITHSCORES')
  for i = 1, #rows, 2 do
    local id, score = rows[i], tonumber(rows[i + 1])
    if list == 'unpromoted' and score > now then
      return answer
    end
    if found < limit and is_after(score, id) then
      found = found + 1
      answer[#answer + 1] = id
      answer[#answer + 1] = rows[i + 1]
    end
  end
  if #rows < 2 * limit then
    break
  end
  at = at + limit
end
return answer
