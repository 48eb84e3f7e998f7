-- Purpose: what some workers hold in one queue.
--
-- KEYS: the queue's (see library.lua), then held:WORKER per worker. Touched: state cancels held:WORKER.
-- ARGV: nothing. Answer: per worker a list of id, token, order, state or '', 1 when it is to be cancelled.

local queue, answer = queue_at(0), {}
for i = STRIDE + 1, #KEYS do
  local rows, list = call('HGETALL', KEYS[i]), {}
  for j = 1, #rows, 2 do
    local id, state = rows[j], call('HGET', queue.state, rows[j])
    local token, _, _, order = read_row(rows[j + 1])
    list[#list + 1] = id
    list[#list + 1] = token
    list[#list + 1] = string.format('%.0f', order)
    list[#list + 1] = state and as_state(state) or ''
    list[#list + 1] = call('HEXISTS', queue.cancels, id)
  end
  answer[#answer + 1] = list
end
return answer
