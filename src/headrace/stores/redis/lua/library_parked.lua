-- Purpose: what the scripts share that read parked_for. It is put behind library.lua.
--
-- KEYS: the queue's.
--
-- A version that does not know parked_for parks jobs without an entry, and cancels jobs that have one. So the lists are
-- compared by their lengths, and each entry, before anything is done about it, with its job.

-- Length and reason, with which the entries of that reason begin, and the id; nil where it cannot be read.
local function parts_of(entry)
  local size = string.match(entry, '^%d%d%d%d')
  if not size then
    return nil
  end
  return sub(entry, 1, 4 + size), sub(entry, 22 + size)
end

-- The entry that a job has by rights; nil where it is not parked.
local function entry_of(queue, id)
  local order = call('ZSCORE', queue.parked, id)
  return order and parked_entry(read_state(queue, id).reason, as_order(order), id)
end

local function is_crooked(queue)
  return call('ZCARD', queue.parked) ~= call('ZCARD', queue.parked_for)
end
