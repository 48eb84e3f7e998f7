-- Purpose: take up to a number of ready jobs from one or more queues for a worker; a repeated number repeats the answer.
--
-- KEYS: per queue the queue's (see library.lua), then per queue held:WORKER.
--       Touched: jobs state ready due waiting running workers claims meta uniques unique_of wake held:WORKER.
-- ARGV: now or '', worker, number of the claim, how many queues, most jobs, lease in us.
-- Answer: now, 1 when ready jobs are left, next due time or nil, then per queue: ids, records, states (or empty).

local now, worker, number = store_now(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local count, left, lease = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local queues, last = {}, 0

for i = 1, count do
  local queue = queue_at(i - 1)
  queue.held = KEYS[count * STRIDE + i]
  queues[i] = queue
  allow_when_full(queue)
  call('ZADD', queue.workers, 'GT', now + lease, worker)
  promote(queue, now, 1000)
  last = math.max(last, tonumber(call('HGET', queue.claims, worker) or 0))
end

local function free_at_start(queue, ids)
  if call('EXISTS', queue.unique_of) == 1 then
    for i, own in ipairs(fetch(queue.unique_of, ids)) do
      if own and sub(own, 1, 1) == 's' then
        free_unique(queue, ids[i])
      end
    end
  end
end

-- The order in which `ready` gives them out is the order of the answer.
local function take(queue)
  local rows = left > 0 and call('ZPOPMIN', queue.ready, left) or {}
  if #rows == 0 then
    return {}, {}, {}
  end
  local ids = {}
  for i = 1, #rows, 2 do
    ids[#ids + 1] = rows[i]
  end
  local records, states = fetch(queue.jobs, ids), {}
  if call('EXISTS', queue.state) == 1 then
    states = fetch(queue.state, ids)
  end
  local held, running, tail = {}, {}, ARGV[3] .. ' '
  for i, id in ipairs(ids) do
    local record = records[i]
    if record then -- without one there is nothing to run: the server has lost data
      held[#held + 1] = id
      held[#held + 1] = sub(states[i] or record, 1, 18) .. sub(record, 40, 40) .. tail .. rows[2 * i]
      running[#running + 1] = now
      running[#running + 1] = id
    end
  end
  many('HSET', queue.held, held)
  many('ZADD', queue.running, running)
  free_at_start(queue, ids)
  left = left - #ids
  return ids, records, states
end

local function taken_before(queue)
  local rows, found = call('HGETALL', queue.held), {}
  for i = 1, #rows, 2 do
    local claim, order = string.match(sub(rows[i + 1], 20), '^(%d+) (.*)$')
    if tonumber(claim) == number then
      found[#found + 1] = {tonumber(order), rows[i]}
    end
  end
  table.sort(found, function(a, b) return a[1] < b[1] end)
  local ids = {}
  for i, row in ipairs(found) do
    ids[i] = row[2]
  end
  return ids, fetch(queue.jobs, ids), fetch(queue.state, ids)
end

local answer, more, next_due = {}, 0, false
for i = 1, count do
  local queue = queues[i]
  local ids, records, states = {}, {}, {}
  if number > last then
    call('HSET', queue.claims, worker, ARGV[3])
    ids, records, states = take(queue)
  elseif number == last then
    ids, records, states = taken_before(queue)
  end
  answer[3 * i + 1], answer[3 * i + 2], answer[3 * i + 3] = ids, records, states
end
for i = 1, count do
  local queue = queues[i]
  if call('EXISTS', queue.ready) == 1 then
    more = 1
    ring(queue)
  end
  local head = call('ZRANGE', queue.due, 0, 0, 'WITHSCORES')[2]
  if head and (not next_due or tonumber(head) < next_due) then
    next_due = tonumber(head)
  end
end
answer[1], answer[2], answer[3] = digits(now), more, next_due and digits(next_due)
return answer
