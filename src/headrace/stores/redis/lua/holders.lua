-- Purpose: which of some workers holds which of some jobs.
--
-- KEYS: held:WORKER per worker. ARGV: ids. Answer: per id the index of the worker from 1, or 0; then per worker how many it holds.

local answer = {}
for i = 1, #ARGV do
  answer[i] = 0
end
for i, key in ipairs(KEYS) do
  for j, row in ipairs(fetch(key, ARGV)) do
    if row then
      answer[j] = i
    end
  end
end
for _, key in ipairs(KEYS) do
  answer[#answer + 1] = call('HLEN', key)
end
return answer
