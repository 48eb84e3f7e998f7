-- Purpose: take up to a number of ready jobs from one or more queues for a worker; a repeated number repeats the answer.
--
-- KEYS: per queue the queue's (see library.lua), then per queue held:WORKER.
--       Touched: jobs state ready due waiting running workers claims meta short0/1 day0/1 failed uniques unique_of
--       cancels wake held:WORKER.
-- ARGV: now or '', worker, number of the claim, how many queues, most jobs, lease in us.
-- Answer: now, 1 when ready jobs are left, next due time or nil, then per queue: ids, records, states (or empty).

local now, worker, number = store_now(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local count, left, lease = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local queues, last = {}, 0

local function claimed_last(queue)
  local text = call('HGET', queue.claims, worker)
  return text and find(text, '^%d+$') and #text < 16 and tonumber(text) or 0
end

for i = 1, count do
  local queue = queue_at(i - 1)
  queue.held = KEYS[count * STRIDE + i]
  queues[i] = queue
  allow_when_full(queue)
  call('ZADD', queue.workers, now + lease, worker) -- set, not raised: the clock may have been set back
  promote(queue, now, 1000)
  last = math.max(last, claimed_last(queue))
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

-- What no worker could be given, for another program wrote it: it fails at once and is kept as it is, under an id that
-- can be asked for.
local function set_aside(queue, id, record)
  local name = id
  if not is_text(id) then
    name = string.gsub(id, '[\128-\255]', function(byte) return string.format('\\x%02x', string.byte(byte)) end)
    while call('HEXISTS', queue.jobs, name) == 1 do
      name = name .. '+'
    end
  end
  local state = read_state(queue, id)
  state.reason = 'unreadable'
  free_unique(queue, id)
  for _, key in ipairs({queue.jobs, queue.state, queue.unique_of, queue.cancels}) do
    call('HDEL', key, id)
  end
  call('HSET', queue.jobs, name, as_record(record))
  finish(queue, name, state, 'failed', now, 0, false)
end

local function is_readable(id, record, state)
  return is_record(record) and is_text(id) and (not state or is_state(state))
end

-- The order in which `ready` gives them out is the order of the answer.
local function take(queue)
  local rows = left > 0 and call('ZPOPMIN', queue.ready, left) or {}
  if #rows == 0 then
    return {}, {}, {}
  end
  local popped = {}
  for i = 1, #rows, 2 do
    popped[#popped + 1] = rows[i]
  end
  local found, known = fetch(queue.jobs, popped), {}
  if call('EXISTS', queue.state) == 1 then
    known = fetch(queue.state, popped)
  end
  local ids, records, states = {}, {}, {}
  local held, running, tail = {}, {}, ARGV[3] .. ' '
  for i, id in ipairs(popped) do
    local record, state = found[i], known[i]
    if not record then -- there is nothing to run: the server has lost data
      call('HDEL', queue.state, id)
    elseif is_readable(id, record, state) then
      ids[#ids + 1], records[#records + 1] = id, record
      states[#ids] = state or false
      held[#held + 1] = id
      held[#held + 1] = sub(state or record, 1, 18) .. sub(record, 40, 40) .. tail .. rows[2 * i]
      running[#running + 1] = now
      running[#running + 1] = id
    else
      set_aside(queue, id, record)
    end
  end
  many('HSET', queue.held, held)
  many('ZADD', queue.running, running)
  free_at_start(queue, ids)
  left = left - #ids
  return ids, records, #known > 0 and states or {}
end

local function taken_before(queue)
  local rows, found = call('HGETALL', queue.held), {}
  for i = 1, #rows, 2 do
    local _, _, claim, order = read_row(rows[i + 1])
    if claim == number and is_text(rows[i]) then
      found[#found + 1] = {order, rows[i]}
    end
  end
  table.sort(found, function(a, b) return a[1] < b[1] end)
  local ids = {}
  for i, row in ipairs(found) do
    ids[i] = row[2]
  end
  local records, states = fetch(queue.jobs, ids), fetch(queue.state, ids)
  for i = 1, #ids do
    records[i] = records[i] and as_record(records[i])
    states[i] = states[i] and as_state(states[i])
  end
  return ids, records, states
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
