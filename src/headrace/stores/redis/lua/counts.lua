-- Purpose: the counts of one queue; the cost does not grow with the number of jobs.
--
-- KEYS: the queue's (see library.lua). Touched: jobs state ready due running parked failed meta.
-- ARGV: now or ''.
-- Answer: 1 when a job was ever enqueued, ready (due ones too), scheduled, running, parked, failed, oldest ready or '', oldest running or ''.

local queue, now = queue_at(0), store_now(ARGV[1])
local due = call('ZCOUNT', queue.due, '-inf', now)
local oldest = ''

-- Jobs stand in the order in which they became ready, but for a few that were given back: look at some.
local function look(ids)
  for _, id in ipairs(ids) do
    local state = read_state(queue, id)
    local since = state.token > state.due and state.token or state.due
    if oldest == '' or since < oldest then
      oldest = since
    end
  end
end

look(call('ZRANGEBYSCORE', queue.due, '-inf', now, 'LIMIT', 0, 10))
-- Between the bands that there are: beyond them numbers are too coarse to step from one to the next.
local head = call('ZRANGEBYSCORE', queue.ready, 0, 201 * BAND, 'WITHSCORES', 'LIMIT', 0, 1)[2]
while head do
  local band = math.floor(tonumber(head) / BAND)
  look(call('ZRANGEBYSCORE', queue.ready, band * BAND, (band + 1) * BAND - 1, 'LIMIT', 0, 10))
  head = call('ZRANGEBYSCORE', queue.ready, (band + 1) * BAND, 201 * BAND, 'WITHSCORES', 'LIMIT', 0, 1)[2]
end

return {
  call('HEXISTS', queue.meta, 'place'),
  call('ZCARD', queue.ready) + due,
  call('ZCARD', queue.due) - due,
  call('ZCARD', queue.running),
  call('ZCARD', queue.parked),
  call('ZCARD', queue.failed),
  oldest,
  call('ZRANGE', queue.running, 0, 0, 'WITHSCORES')[2] or '',
}
