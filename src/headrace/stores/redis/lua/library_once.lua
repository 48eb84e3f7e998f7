-- Purpose: what the scripts share that touch once records (see core/once_records.py). It is put behind library.lua.
--
-- KEYS: once and once_until, of a queue, or of no queue for the records that are held by a lease: {once, once_until}.
--
-- A job holds a record while it is running under the token that stands there, so nothing has to be written when it stops.

local NO_TOKEN = string.rep('0', 18) -- of a holder that is no job
local FREE, HELD = '0', '1'

-- What another program wrote there is nil: such a record is free. A fence is below 2^53, so it can be counted up.
local function read_once(raw)
  local _, last = find(raw, '^00[0-8]%d*')
  if not last or last < 77 then
    return nil
  end
  local state, size = sub(raw, 73, 73), tonumber(sub(raw, 74, 77))
  local mark = sub(raw, 110 + size, 110 + size)
  if state > '3' or (mark ~= '+' and mark ~= '-') then
    return nil
  end
  return {
    fence = sub(raw, 1, 18), token = sub(raw, 19, 36), lease = tonumber(sub(raw, 37, 54)),
    until_ = tonumber(sub(raw, 55, 72)), state = state, print = sub(raw, 78, 109), owner = sub(raw, 110, 109 + size),
    result = mark == '+' and sub(raw, 111 + size),
  }
end

-- Its token is that of its state or record; `held` would tell as well, but by the name of its worker only.
local function is_running(queue, id, token)
  return queue.running and call('ZSCORE', queue.running, id) and read_state(queue, id).token == token
end

local function is_free_once(queue, record, now)
  if record.state ~= HELD then
    return record.state == FREE or record.until_ <= now
  end
  if record.token == NO_TOKEN then
    return record.lease <= now
  end
  return not is_running(queue, record.owner, record.token)
end

-- The record after its holder has ended it: nil where it is not this holder's, `raw` itself where that was done before.
-- `until_` has 18 digits.
local function ended_once(raw, owner, token, fence, state, until_, result)
  local size = #owner
  if raw and #raw == 110 + size and sub(raw, 1, 36) == fence .. token and sub(raw, 110) == owner .. '-' and
    sub(raw, 73, 77) == HELD .. string.format('%04d', size) then -- nearly always; the rest is slower, and tells all cases
    return fence .. token .. NO_TOKEN .. until_ .. state .. sub(raw, 74, 109) .. owner .. result
  end
  local record = raw and read_once(raw)
  if not record or record.fence ~= fence or record.token ~= token or record.owner ~= owner then
    return nil
  end
  if record.state == state then
    return raw
  end
  if record.state ~= HELD then
    return nil
  end
  return fence .. token .. NO_TOKEN .. until_ .. state .. sub(raw, 74, 109 + size) .. result
end

-- Forget what is over; how many went, and whether some are left.
local function forget_once(queue, now, limit)
  local over = call('ZRANGEBYSCORE', queue.once_until, '-inf', now, 'LIMIT', 0, limit)
  many('HDEL', queue.once, over)
  many('ZREM', queue.once_until, over)
  return #over, call('ZCOUNT', queue.once_until, '-inf', now) > 0
end

