-- Purpose: make failed jobs of one queue ready again, with new trails; each fenced by the token it failed with.
--
-- KEYS: the queue's (see library.lua). Touched: jobs state ready meta short0/1 day0/1 failed uniques unique_of wake.
-- ARGV: now or '', then per job: id, token (18 digits), trail.
-- Answer: per job '' when it is ready, else why not.

local queue, now = queue_at(0), store_now(ARGV[1])

local function replay(id, token, trail)
  local record = call('HGET', queue.jobs, id)
  if not record then
    return 'absent'
  end
  local state = read_state(queue, id)
  if state.token ~= token or not call('ZSCORE', queue.failed, id) then
    return 'is ' .. (place_of(queue, id) or 'absent')
  end
  local own = call('HGET', queue.unique_of, id)
  if own then
    local holder = call('HGET', queue.uniques, sub(own, 20))
    holder = holder and sub(holder, 19)
    if holder and call('HEXISTS', queue.jobs, holder) == 1 then
      return 'duplicate of ' .. holder
    end
  end
  call('ZREM', queue.failed, id)
  if own then
    call('HSET', queue.uniques, sub(own, 20), digits(now + (tonumber(sub(own, 2, 19)) or 0)) .. id)
  end
  forget_tombstones(queue, id)
  state.token = digits(math.max(tonumber(token) + 1, now))
  state.due, state.base = digits(now), digits(now)
  state.reason, state.trail = '', trail
  write_state(queue, id, state)
  call('ZADD', queue.ready, next_order(queue, tonumber(sub(as_record(record), 37, 39)) * BAND), id)
  ring(queue)
  return ''
end

local answers = {}
for at = 2, #ARGV, 3 do
  answers[#answers + 1] = replay(ARGV[at], ARGV[at + 1], ARGV[at + 2])
end
return answers
