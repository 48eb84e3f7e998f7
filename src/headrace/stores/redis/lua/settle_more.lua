-- Purpose: as settle.lua, also where once records end with their jobs, and where jobs follow: all of an outcome or nothing.
--
-- KEYS: per queue the queue's (see library.lua), then per queue held:WORKER. Touched: all but workers and claims.
-- ARGV: now or '', how many queues; then per queue how many plain and guarded outcomes, groups of parked ones, and others;
--   then per queue: ids of the plain ones (succeeded, not kept), their tokens (18 digits); of the guarded ones (plain, and a
--   once record is done) ids, tokens, fields of `once`, fences (18 digits), how long they are kept (us), + and results or -;
--   the groups of parked ones, see library_settle.lua;
--   and for each other: id, token, outcome, delay, keep, reason, trail ('' leaves it), field of `once` or '', and where
--   there is one its fence, new state, how long it is kept, + and result or -; how many jobs follow, and 4 arguments for
--   each of them as in enqueue.lua.
-- Answer: in the same order 1 done, 0 stale (or the once record is not this job's), 2 running but held by another worker.

local now, count = store_now(ARGV[1]), tonumber(ARGV[2])
local answers = {}

-- Plain ones, whose once records are done with them.
local function settle_guarded(queue, held, first, size)
  local at, records, untils, moments = first + 2 * size - 1, {}, {}, {}
  local raws = call('HMGET', queue.once, unpack(ARGV, at + 1, at + size))
  settle_plain(queue, held, first, size, now, answers, function(i, id, token)
    local keep, last = ARGV[at + 2 * size + i], #records
    local forgotten = moments[keep] or digits(now + tonumber(keep))
    local ended = ended_once(raws[i], id, token, ARGV[at + size + i], '2', forgotten, ARGV[at + 3 * size + i])
    moments[keep] = forgotten
    if ended and ended ~= raws[i] then
      records[last + 1], records[last + 2] = ARGV[at + i], ended
      untils[last + 1], untils[last + 2] = forgotten, ARGV[at + i]
    end
    return ended
  end)
  many('HSET', queue.once, records)
  many('ZADD', queue.once_until, untils)
end

-- Its answer is entered; where the arguments of the next one begin.
local function settle_other(queue, held, at)
  local id, token, outcome, field = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 7]
  local change = {
    outcome = outcome, delay = tonumber(ARGV[at + 3]), keep = tonumber(ARGV[at + 4]),
    reason = ARGV[at + 5], trail = ARGV[at + 6],
  }
  local raw, ended, forgotten
  if field ~= '' then
    raw, forgotten = call('HGET', queue.once, field), digits(now + tonumber(ARGV[at + 10]))
    ended = ended_once(raw, id, token, ARGV[at + 8], ARGV[at + 9], forgotten, ARGV[at + 11])
    at = at + 4
  end
  local code, following = 0, tonumber(ARGV[at + 8])
  if field == '' or ended then
    code = settle(queue, held, id, token, change, now)
  end
  if code == 1 and ended and ended ~= raw then
    call('HSET', queue.once, field, ended)
    call('ZADD', queue.once_until, forgotten, field)
  end
  if code == 1 and following > 0 and ENDS[outcome] then
    enqueue(queue, now, at + 9, following, 4)
  end
  answers[#answers + 1] = code
  return at + 9 + 4 * following
end

local at = 3 + 4 * count
for i = 1, count do
  local queue, held = queue_at(i - 1), KEYS[count * STRIDE + i]
  local plain, guarded = tonumber(ARGV[4 * i - 1]), tonumber(ARGV[4 * i])
  local parked, others = tonumber(ARGV[4 * i + 1]), tonumber(ARGV[4 * i + 2])
  if plain > 0 then
    settle_plain(queue, held, at, plain, now, answers)
  end
  at = at + 2 * plain
  if guarded > 0 then
    settle_guarded(queue, held, at, guarded)
  end
  at = settle_parked_groups(queue, held, at + 6 * guarded, parked, now, answers)
  for _ = 1, others do
    at = settle_other(queue, held, at)
  end
end
return answers
