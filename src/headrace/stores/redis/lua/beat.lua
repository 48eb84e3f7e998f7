-- Purpose: extend a worker's lease in one or more queues and tell it what it lost, what to cancel, what it never heard of.
--
-- KEYS: per queue the queue's (see library.lua), then per queue held:WORKER.
--       Touched: state workers meta cancels held:WORKER.
-- ARGV: now or '', worker, lease in us, oldest open claim number, how many queues, then per queue how many jobs
--   the worker holds; then per queue their ids, then their tokens (18 digits).
-- Answer: now, then per queue: which of its jobs are lost and which to cancel (places from 1, for an id may be in two
--   queues), and id, token, state for each job it does not know.

local now, worker, lease = store_now(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local open, count = tonumber(ARGV[4]), tonumber(ARGV[5])
local answer, at = {digits(now)}, 6 + count

-- The claim that brought them was answered, but its answer was lost: nobody will run these.
local function unknown(queue, held, known)
  local rows, found = call('HGETALL', held), {}
  for i = 1, #rows, 2 do
    local id = rows[i]
    local token, _, claim = read_row(rows[i + 1])
    if not known[id] and claim < open then
      local state = call('HGET', queue.state, id)
      found[#found + 1] = id
      found[#found + 1] = token
      found[#found + 1] = state and as_state(state) or ''
    end
  end
  return found
end

for i = 1, count do
  local queue, held, size = queue_at(i - 1), KEYS[count * STRIDE + i], tonumber(ARGV[5 + i])
  allow_when_full(queue)
  call('ZADD', queue.workers, now + lease, worker)
  local lost, cancel, known, ids, found = {}, {}, {}, {}, 0
  for j = 1, size do
    ids[j] = ARGV[at + j - 1]
    known[ids[j]] = true
  end
  local rows, asked = fetch(held, ids), call('EXISTS', queue.cancels) == 1
  for j, id in ipairs(ids) do
    local row = rows[j]
    found = found + (row and 1 or 0)
    if not row or sub(row, 1, 18) ~= ARGV[at + size + j - 1] then
      lost[#lost + 1] = j
    elseif asked and call('HEXISTS', queue.cancels, id) == 1 then
      cancel[#cancel + 1] = j
    end
  end
  answer[3 * i - 1], answer[3 * i] = lost, cancel
  answer[3 * i + 1] = call('HLEN', held) > found and unknown(queue, held, known) or {}
  at = at + 2 * size
end
return answer
