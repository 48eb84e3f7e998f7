-- Purpose: what every script shares. It is put before each of them, word for word, when the scripts are read.
--
-- Two kinds of things stand in keys of no queue: once records that are held by a lease (see library_once.lua), and
-- registers (see amend.lua).
-- KEYS come in groups of STRIDE per queue, always all of them and in this order, then the keys of single workers
-- where a script says so. Every key is handed in: a cluster must know the slot beforehand.
--   jobs       hash  id -> created (18 digits), due (18), order band (3), derived (1), length of the task (4), task, body
--   state      hash  id -> token (18), due (18), base (18), length of the reason (4), reason, trail;
--                    only for jobs that came back once or are kept: without an entry token = base = created
--   ready      zset  id -> order = band * 2^44 + place, where band = 100 - priority; the smallest is claimed first
--   due        zset  id -> due time; scheduled jobs
--   waiting    hash  id -> order of a scheduled job
--   running    zset  id -> claimed at
--   parked     zset  id -> order of a job that is held back
--   workers    zset  worker -> lease until
--   claims     hash  worker -> number of its last claim
--   meta       hash  place: last place given; floor: highest token that ever was ahead of the clock;
--                    short, day: which of two tombstone hashes is filled; short_at, day_at: since when;
--                    sweep: where the search for stray unique keys goes on
--   short0/1   hash  tombstones: id of a job that ended -> remembered until; 60 s, dropped whole in turns
--   day0/1     hash  the same for derived and user-given ids, 24 h
--   failed     zset  id -> finished at; kept until somebody retries, forgets or prunes them
--   succeeded, cancelled, expired   zset  id -> finished at; only jobs that are kept for a while
--   kept       zset  id -> kept until; the members of the three above
--   uniques    hash  unique key -> lifetime's end (18), id of the job that holds it
--   unique_of  hash  id -> e or s (until the end or the start), lifetime (18), unique key; only unique jobs
--   cancels    hash  id -> 1; running jobs that somebody asked to cancel
--   wake       list  at most one element: jobs may be waiting
--   once       hash  scope, NUL, key -> once record: fence (18), token (18), lease until (18), forgotten at (18),
--                    state (0 free, 1 held, 2 done, 3 failed), length of the owner (4), fingerprint (32), owner,
--                    then + and the result, or -
--   once_until zset  scope, NUL, key -> forgotten at
--   parked_for zset  length of the reason (4), reason, order (17, see parked_entry), id -> 0; the jobs of parked by reason
--   held:WORKER  hash  id -> token (18), derived (1), claim number, space, order; what one worker holds

local call, sub, find = redis.call, string.sub, string.find
local BAND = 17592186044416 -- 2^44
local STRIDE = 26
local CHUNK = 4000 -- Lua's stack bounds what unpack may give
local LIFE = {short = 60000000, day = 86400000000}

local function queue_at(index)
  local at = index * STRIDE
  return {
    jobs = KEYS[at + 1], state = KEYS[at + 2], ready = KEYS[at + 3], due = KEYS[at + 4], waiting = KEYS[at + 5],
    running = KEYS[at + 6], workers = KEYS[at + 7], claims = KEYS[at + 8], meta = KEYS[at + 9],
    short0 = KEYS[at + 10], short1 = KEYS[at + 11], day0 = KEYS[at + 12], day1 = KEYS[at + 13],
    failed = KEYS[at + 14], succeeded = KEYS[at + 15], cancelled = KEYS[at + 16], expired = KEYS[at + 17],
    kept = KEYS[at + 18], uniques = KEYS[at + 19], unique_of = KEYS[at + 20], cancels = KEYS[at + 21],
    wake = KEYS[at + 22], parked = KEYS[at + 23], once = KEYS[at + 24], once_until = KEYS[at + 25],
    parked_for = KEYS[at + 26],
  }
end

local function store_now(override)
  if override ~= '' then
    return tonumber(override)
  end
  local time = call('TIME')
  return time[1] * 1000000 + time[2]
end

local function digits(number)
  return string.format('%018.0f', math.max(0, math.min(number, 999999999999999872))) -- no 18 digits say more
end

-- Another program may have written anything. What no script or worker could read is replaced by what says least.

-- The first number is a moment before 10^16 us (the year 2286): a token beyond could not be counted up any more.
local function has_digits(raw, count)
  local _, last = find(raw, '^00%d*')
  return last and last >= count
end

local function is_record(raw)
  return has_digits(raw, 44)
end

-- What cannot be read becomes the body of a job of no task.
local function as_record(raw)
  return is_record(raw) and raw or string.rep('0', 36) .. '10000000' .. raw
end

local function is_state(raw)
  return has_digits(raw, 58)
end

-- What cannot be read becomes the trail.
local function as_state(raw)
  return is_state(raw) and raw or string.rep('0', 58) .. raw
end

-- Whether it is UTF-8: whatever goes by another name could be given out, but never be named when it comes back.
local function is_text(name)
  -- the first is quick, and true of our own ids
  if find(name, '^%w*%-?%w*%-?%w*%-?%w*%-?%w*$') or not find(name, '[\128-\255]') then
    return true
  end
  for _, pattern in ipairs({
    '\240[\144-\191][\128-\191][\128-\191]', '[\241-\243][\128-\191][\128-\191][\128-\191]',
    '\244[\128-\143][\128-\191][\128-\191]', '\224[\160-\191][\128-\191]', '\237[\128-\159][\128-\191]',
    '[\225-\236\238\239][\128-\191][\128-\191]', '[\194-\223][\128-\191]',
  }) do
    name = string.gsub(name, pattern, '.')
  end
  return not find(name, '[\128-\255]')
end

-- A place among the ready jobs as a number; the end of the middle band where there is none.
local function as_order(text)
  local order = tonumber(text or '')
  return order and order > -2 ^ 53 and order < 2 ^ 53 and order or 101 * BAND - 1
end

-- Token, derived, claim number and order of a row of `held`; one that cannot be read is of claim 0, token 0.
local function read_row(row)
  local head, order = string.match(row, '^(%d+) (.*)$')
  if not head or not has_digits(head, 20) then
    return string.rep('0', 18), '0', 0, as_order(order)
  end
  return sub(head, 1, 18), sub(head, 19, 19), tonumber(sub(head, 20)), as_order(order)
end

-- B036: in a server that is full, only a first write that frees memory lets the following ones through.
local function allow_when_full(queue)
  call('HDEL', queue.meta, '-')
end

-- A command with many arguments, in pieces. CHUNK is even, so pairs stay together.
local function many(command, key, args)
  local count = #args
  for first = 1, count, CHUNK do
    call(command, key, unpack(args, first, math.min(first + CHUNK - 1, count)))
  end
end

local function fetch(key, ids)
  local count = #ids
  if count <= CHUNK then
    return count == 0 and {} or call('HMGET', key, unpack(ids))
  end
  local all = {}
  for first = 1, count, CHUNK do
    for _, value in ipairs(call('HMGET', key, unpack(ids, first, math.min(first + CHUNK - 1, count)))) do
      all[#all + 1] = value
    end
  end
  return all
end

local function ring(queue)
  if call('LLEN', queue.wake) == 0 then
    call('RPUSH', queue.wake, '1')
  end
end

-- The next place in a band; bands do not share places, but a common counter keeps them in order as well.
local function next_order(queue, order)
  return math.floor(order / BAND) * BAND + call('HINCRBY', queue.meta, 'place', 1)
end

-- Jobs that are due become ready, in the order of their due times, then of their places.
local function promote(queue, now, limit)
  local rows = call('ZRANGEBYSCORE', queue.due, '-inf', now, 'WITHSCORES', 'LIMIT', 0, limit)
  local count = #rows / 2
  if count == 0 then
    return 0
  end
  local ids, tied = {}, false
  for i = 1, count do
    ids[i] = rows[2 * i - 1]
    tied = tied or rows[2 * i] == rows[2 * i + 2]
  end
  local orders = fetch(queue.waiting, ids)
  local order, due = {}, {}
  for i, id in ipairs(ids) do
    order[id], due[id] = as_order(orders[i]), tonumber(rows[2 * i])
  end
  if tied then
    table.sort(ids, function(a, b)
      if due[a] ~= due[b] then
        return due[a] < due[b]
      end
      return order[a] % BAND < order[b] % BAND
    end)
  end
  local place = call('HINCRBY', queue.meta, 'place', count) - count
  local ready = {}
  for i, id in ipairs(ids) do
    ready[2 * i - 1], ready[2 * i] = math.floor(order[id] / BAND) * BAND + place + i, id
  end
  many('ZADD', queue.ready, ready)
  many('ZREM', queue.due, ids)
  many('HDEL', queue.waiting, ids)
  return count
end

-- What may change in a job: its entry in `state`, or what stands in its record until it has one.
local function read_state(queue, id)
  local raw = call('HGET', queue.state, id)
  if raw then
    raw = as_state(raw)
    local length = tonumber(sub(raw, 55, 58))
    return {
      token = sub(raw, 1, 18), due = sub(raw, 19, 36), base = sub(raw, 37, 54),
      reason = sub(raw, 59, 58 + length), trail = sub(raw, 59 + length),
    }
  end
  local record = as_record(call('HGET', queue.jobs, id) or '')
  local created = sub(record, 1, 18)
  return {token = created, due = sub(record, 19, 36), base = created, reason = '', trail = ''}
end

local function write_state(queue, id, state)
  local reason = sub(state.reason, 1, 9999)
  call('HSET', queue.state, id,
    state.token .. state.due .. state.base .. string.format('%04d', #reason) .. reason .. state.trail)
end

-- A job in parked_for: whoever reads on from a reason finds its jobs by order, and no other reason in between. The order
-- is made of 17 digits that sort as it does.
local function parked_place(order, id)
  return (order < 0 and string.format('0%016.0f', order + 2 ^ 53) or string.format('1%016.0f', order)) .. id
end

local function parked_entry(reason, order, id)
  reason = sub(reason, 1, 9999)
  return string.format('%04d', #reason) .. reason .. parked_place(order, id)
end

local function free_unique(queue, id)
  local own = call('HGET', queue.unique_of, id)
  if own then
    local key = sub(own, 20)
    local holder = call('HGET', queue.uniques, key)
    if holder and sub(holder, 19) == id then
      call('HDEL', queue.uniques, key)
    end
  end
end

-- The hash that takes tombstones now. When it is old enough the other one, older still, is dropped and filled anew.
local function graveyard(queue, now, kind)
  local known = call('HMGET', queue.meta, kind, kind .. '_at')
  local turn, since = known[1] == '1' and '1' or '0', tonumber(known[2] or now) or 0
  if known[2] and now - since < LIFE[kind] then
    return queue[kind .. turn]
  end
  if known[2] then
    if now - since >= 2 * LIFE[kind] then -- the last one came before since + LIFE: all are over
      call('UNLINK', queue[kind .. turn])
    end
    turn = turn == '0' and '1' or '0'
    call('UNLINK', queue[kind .. turn])
  end
  call('HSET', queue.meta, kind, turn, kind .. '_at', digits(now))
  return queue[kind .. turn]
end

local function bury(queue, ids, now, kind)
  if #ids == 0 then
    return
  end
  local key, last = graveyard(queue, now, kind), digits(now + LIFE[kind])
  local pairs_ = {}
  for i, id in ipairs(ids) do
    pairs_[2 * i - 1], pairs_[2 * i] = id, last
  end
  many('HSET', key, pairs_)
end

-- The highest token that ever was ahead of the clock.
local function floor_of(queue)
  local floor = call('HGET', queue.meta, 'floor')
  return floor and has_digits(floor, 18) and tonumber(floor) or 0
end

-- A token ahead of the clock (it was set back) is remembered, so that no re-used id ever gets a lower one.
local function keep_floor(queue, token, now)
  if tonumber(token) > now then
    call('HSET', queue.meta, 'floor', digits(math.max(floor_of(queue), tonumber(token))))
  end
end

-- The one way a job ends: frees its unique key, leaves a tombstone, and is deleted unless it is to be kept.
local function finish(queue, id, state, outcome, now, keep, derived)
  free_unique(queue, id)
  call('HDEL', queue.cancels, id)
  keep_floor(queue, state.token, now)
  if outcome == 'failed' or keep > 0 then
    call('ZADD', queue[outcome], now, id)
    if outcome ~= 'failed' then
      call('ZADD', queue.kept, now + keep, id)
    end
    write_state(queue, id, state)
  else
    call('HDEL', queue.jobs, id)
    call('HDEL', queue.state, id)
    call('HDEL', queue.unique_of, id)
  end
  bury(queue, {id}, now, derived and 'day' or 'short')
end

local ENDS = {succeeded = true, failed = true, cancelled = true, expired = true}

-- End one claim of the worker whose hash is `held`: 1 done, 0 stale, 2 running, but not held by this worker.
local function settle(queue, held, id, token, change, now)
  local row = call('HGET', held, id)
  if not row then
    return call('ZSCORE', queue.running, id) and 2 or 0
  end
  local own, derived, _, order = read_row(row)
  if own ~= token then
    return 0
  end
  local state = read_state(queue, id)
  call('HDEL', held, id) -- a freeing write comes first (B036)
  call('ZREM', queue.running, id)
  state.reason = change.reason
  if change.trail ~= '' then
    state.trail = change.trail
  end
  local outcome = change.outcome
  if not ENDS[outcome] and call('HEXISTS', queue.cancels, id) == 1 then
    outcome, state.reason = 'cancelled', 'cancelled'
  end
  if ENDS[outcome] then
    finish(queue, id, state, outcome, now, change.keep, derived == '1')
    return 1
  end
  if call('HEXISTS', queue.jobs, id) == 0 then -- nothing is left to run: the server has lost data
    call('HDEL', queue.state, id)
    call('HDEL', queue.cancels, id)
    return 0
  end
  state.token = digits(math.max(tonumber(token) + 1, now))
  if outcome == 'scheduled' then
    local due = now + change.delay
    state.due = digits(due)
    local head = call('ZRANGE', queue.due, 0, 0, 'WITHSCORES')
    call('ZADD', queue.due, due, id)
    call('HSET', queue.waiting, id, order)
    if not head[2] or due < tonumber(head[2]) then
      ring(queue)
    end
  elseif outcome == 'parked' then
    state.due = digits(now + change.delay)
    call('ZADD', queue.parked, order, id)
    call('ZADD', queue.parked_for, 0, parked_entry(state.reason, order, id))
  else
    call('ZADD', queue.ready, order, id) -- the old order: it keeps its place
    ring(queue)
  end
  write_state(queue, id, state)
  return 1
end

-- Which of `ids` are here or were lately: index -> true.
local function known_ids(queue, ids, now)
  local known = {}
  for i, record in ipairs(fetch(queue.jobs, ids)) do
    if record then
      known[i] = true
    end
  end
  local moment = digits(now)
  for _, key in ipairs({queue.short0, queue.short1, queue.day0, queue.day1}) do
    if call('EXISTS', key) == 1 then
      for i, last in ipairs(fetch(key, ids)) do
        if last and last > moment then
          known[i] = true
        end
      end
    end
  end
  return known
end

local function forget_tombstones(queue, id)
  for _, key in ipairs({queue.short0, queue.short1, queue.day0, queue.day1}) do
    call('HDEL', key, id)
  end
end

-- Where a job is, and the number that goes with it there; nil for a record that is nowhere.
local function place_of(queue, id)
  for _, name in ipairs({'running', 'ready', 'due', 'parked', 'failed', 'succeeded', 'cancelled', 'expired'}) do
    local score = call('ZSCORE', queue[name], id)
    if score then
      return name, score
    end
  end
end

