-- Purpose: take once records that are free, for jobs of one or more queues or for holders of leases.
--
-- KEYS: per queue the queue's (see library.lua). Touched: jobs state running meta once once_until.
--       For leases: once and once_until of no queue.
-- ARGV: now or '', how long a record is kept whose holder is gone (us), how many queues (0: leases), per queue (once for
--   leases) how many claims; then for each of them: the fields (scope, NUL, key), the tokens (18 digits), the rests of the
--   records (length of the owner, fingerprint, owner, -), and for leases how long they last (us).
-- Answer: per claim its fence where it was taken, else: 0 (the key stands for another call), 1 (held), 2 (done) or 3
--   (failed), the fence, how long the holder's lease lasts yet, the result or nil.
--
-- B036: jobs are let through in a full server, for they end others; holders of leases are refused before any change.

local now, keep, queues = store_now(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local moment, forgotten = digits(now), digits(now + keep)
local answers = {}

-- The fence under which it is taken, or the answer that it is not.
local function fence_of(queue, raw, token, rest)
  local record = raw and read_once(raw)
  if not record then
    return raw and now + 1 or now -- whatever fence another program has overwritten was not above now
  end
  local fence = tonumber(record.fence)
  if is_free_once(queue, record, now) then
    return math.max(fence + 1, now)
  end
  if record.print ~= sub(rest, 5, 36) then
    return nil, {0, fence, 0, false}
  end
  if record.state ~= HELD then
    return nil, {tonumber(record.state), fence, 0, record.result}
  end
  if record.token == token and record.owner == sub(rest, 37, -2) then
    return fence -- our own, whose answer was lost
  end
  return nil, {1, fence, record.token == NO_TOKEN and record.lease - now or 0, false}
end

local function take(queue, at, count, leases)
  local raws = call('HMGET', queue.once, unpack(ARGV, at, at + count - 1))
  local fresh, records, untils = {}, {}, {}
  for i = 1, count do
    local field, token, rest = ARGV[at + i - 1], ARGV[at + count + i - 1], ARGV[at + 2 * count + i - 1]
    local fence, refusal = fence_of(queue, fresh[field] or raws[i], token, rest)
    if fence then
      local lease = leases and digits(now + tonumber(ARGV[at + 3 * count + i - 1])) or NO_TOKEN
      local record = (fence == now and moment or digits(fence)) .. token .. lease .. forgotten .. HELD .. rest
      local last = #records
      fresh[field] = record
      records[last + 1], records[last + 2] = field, record
      untils[last + 1], untils[last + 2] = forgotten, field
    end
    answers[#answers + 1] = fence or refusal
  end
  many('HSET', queue.once, records)
  many('ZADD', queue.once_until, untils)
end

if queues == 0 then
  take({once = KEYS[1], once_until = KEYS[2]}, 5, tonumber(ARGV[4]), true)
end
local at = 4 + queues
for i = 1, queues do
  local queue, count = queue_at(i - 1), tonumber(ARGV[3 + i])
  allow_when_full(queue)
  take(queue, at, count, false)
  at = at + 3 * count
end
return answers
