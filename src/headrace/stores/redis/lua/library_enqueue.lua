-- Purpose: what enqueue.lua and settle_more.lua share: how new jobs are stored. It is put behind library.lua.
--
-- KEYS: the queue's. Touched: jobs state ready due waiting meta short0/1 day0/1 uniques unique_of wake.
--
-- B036: the first write (HINCRBY) needs memory, so a full server refuses enqueue.lua here, before anything is changed;
-- settle_more.lua has freed some by then. What is read or computed may fail, so it comes before the writes of jobs and keys:
-- those are all or none.

-- Per job 0 (new), 1 (exists) or the id that holds its unique key; then whether all are new.
local function answer_to(queue, ids, now, first, step)
  local answers, all_new = {}, true
  local known, seen, fresh_keys = known_ids(queue, ids, now), {}, {}

  local function holder_of(key)
    local raw = fresh_keys[key]
    if raw then
      return raw
    end
    raw = call('HGET', queue.uniques, key)
    local id = raw and sub(raw, 19)
    return id and call('HEXISTS', queue.jobs, id) == 1 and id
  end

  for i, id in ipairs(ids) do
    local answer = 0
    if known[i] or seen[id] then
      answer, all_new = 1, false
    elseif step == 4 and ARGV[first + 4 * i - 1] ~= '' then
      local key = sub(ARGV[first + 4 * i - 1], 20)
      local holder = holder_of(key)
      if holder then
        answer, all_new = holder, false
      else
        fresh_keys[key] = id
      end
    end
    if answer == 0 then
      seen[id] = true
    end
    answers[i] = answer
  end
  return answers, all_new
end

-- Store `count` jobs, of which each has `step` arguments from ARGV[first] on (see enqueue.lua).
local function enqueue(queue, now, first, count, step)
  local ids = {}
  for i = 1, count do
    ids[i] = ARGV[first + step * (i - 1)]
  end
  promote(queue, now, 1000)
  local answers, all_new = answer_to(queue, ids, now, first, step)
  local place = call('HINCRBY', queue.meta, 'place', #ids) - #ids
  local token = math.max(now, floor_of(queue) + 1)
  local created = digits(now)
  local jobs, states, ready, scheduled, waiting, earliest = {}, {}, {}, {}, {}, nil
  local uniques, unique_of = {}, {}
  for i, id in ipairs(ids) do
    if answers[i] == 0 then
      local at = first + step * (i - 1)
      local due, due_digits, record = now, created, ARGV[at + 1]
      local order = tonumber(sub(record, 1, 3)) * BAND + place + i
      if step == 4 and ARGV[at + 2] ~= '' then
        local number = sub(ARGV[at + 2], 2)
        if sub(ARGV[at + 2], 1, 1) == '+' then
          due = now + tonumber(number)
          due_digits = digits(due)
        else -- taken over as text: beyond 2^53 a number would lose its last digits
          due, due_digits = tonumber(number), number
        end
      end
      jobs[#jobs + 1], jobs[#jobs + 2] = id, created .. due_digits .. record
      if due <= now then
        ready[#ready + 1], ready[#ready + 2] = order, id
      else
        scheduled[#scheduled + 1], scheduled[#scheduled + 2] = due, id
        waiting[#waiting + 1], waiting[#waiting + 2] = id, order
        earliest = math.min(earliest or due, due)
      end
      if step == 4 and ARGV[at + 3] ~= '' then
        local unique = ARGV[at + 3]
        uniques[#uniques + 1] = sub(unique, 20)
        uniques[#uniques + 1] = digits(now + tonumber(sub(unique, 2, 19))) .. id
        unique_of[#unique_of + 1], unique_of[#unique_of + 2] = id, unique
      end
      if token > now then
        states[#states + 1], states[#states + 2] = id, digits(token) .. due_digits .. created .. '0000'
      end
    end
  end

  local head = earliest and tonumber(call('ZRANGE', queue.due, 0, 0, 'WITHSCORES')[2] or '') or nil
  many('HSET', queue.uniques, uniques)
  many('HSET', queue.unique_of, unique_of)
  many('HSET', queue.state, states)
  many('HSET', queue.jobs, jobs)
  many('ZADD', queue.ready, ready)
  many('ZADD', queue.due, scheduled)
  many('HSET', queue.waiting, waiting)
  if #ready > 0 or (earliest and (not head or earliest < head)) then
    ring(queue)
  end
  return answers, all_new
end

