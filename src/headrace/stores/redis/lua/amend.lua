-- Purpose: read some registers, or write some where all of them are still as they were read.
--
-- A register is changed by a function that no script knows, so whoever changes it reads it, changes it and compares.
--
-- KEYS: of no queue: registers        hash  name -> forgotten at (18 digits), content
--                    registers_names  zset  name -> 0; sorted by name
--                    registers_until  zset  name -> forgotten at
-- ARGV: now or '', how many registers, their names; and to write, what was read of each: + and the entry, or - where there
--   was none; then what is to stand there: the same, or = where it stays.
-- Answer: 1 when it is written, else now and what stands there.

local registers, sorted, untils = KEYS[1], KEYS[2], KEYS[3]
local now, count = store_now(ARGV[1]), tonumber(ARGV[2])
local names = {}
for i = 1, count do
  names[i] = ARGV[2 + i]
end
local entries = fetch(registers, names)

local function is_as_read()
  for i, entry in ipairs(entries) do
    if ARGV[2 + count + i] ~= (entry and '+' .. entry or '-') then
      return false
    end
  end
  return true
end

if not is_as_read() then
  return {digits(now), entries}
end
local touched, gone, written, zeros, moments = {}, {}, {}, {}, {}
for i, name in ipairs(names) do
  local wanted, last = ARGV[2 + 2 * count + i], #written
  if wanted ~= '=' then
    touched[#touched + 1] = name
  end
  if wanted == '-' then
    gone[#gone + 1] = name
  elseif wanted ~= '=' then
    written[last + 1], written[last + 2] = name, sub(wanted, 2)
    zeros[last + 1], zeros[last + 2] = 0, name
    moments[last + 1], moments[last + 2] = sub(wanted, 2, 19), name
  end
end
many('HDEL', registers, touched) -- a freeing write comes first (B036): workers need them to end jobs, and they are few
many('ZREM', sorted, gone)
many('ZREM', untils, gone)
many('HSET', registers, written)
many('ZADD', sorted, zeros)
many('ZADD', untils, moments)
return 1
