#!lua
-- due.lua: users with a reservation without a verdict whose turn it is to be looked at; their next turn is put forward.
--
--   ARGV   how many users at most (≤ 64), jitter ms
--   gives  {OK, sequence, now ms, names of the SKUs, users waiting, then for each: user, his entries}; {STALE_EPOCH} alone;
--          {STRUCTURE_LOST} alone: pending was lost, and the bucket is closed now
--
-- Turns come 1, 2, 4, 8, 15 s after the user's youngest undecided reservation, then every 15 s.
local names = call('HGET', KEYS[1], 'skus')
if not names then
  return {REASON_STALE_EPOCH}
end
if not call('ZSCORE', base .. 'pending', GUARD) and lose('pending') then
  return {REASON_STRUCTURE_LOST}
end
local now, jitter = now_ms(), tonumber(ARGV[2])

-- When the youngest undecided entry was made; nil where there is none.
local function youngest(list)
  local made, at = nil, 1
  while at <= #list do
    local _, after = entry_parts(list, at)
    if entry_undecided(list, at) then
      local created = unpack_at('>I6', list, at + 19)
      if not made or created > made then
        made = created
      end
    end
    at = after
  end
  return made
end

local function next_turn(made)
  for _, age in ipairs({1000, 2000, 4000, 8000, 15000}) do
    if made + age > now then
      return made + age
    end
  end
  return now + 15000 + jitter
end

local users = call('ZRANGEBYSCORE', base .. 'pending', '-inf', format('%d', now), 'LIMIT', '0', ARGV[1])
local found = {}
for _, user in ipairs(users) do
  local list = call('HGET', base .. 'users', user) or ''
  local made = youngest(list)
  if made then
    call('ZADD', base .. 'pending', format('%d', next_turn(made)), user)
    found[#found + 1] = user
    found[#found + 1] = list
  else
    call('ZREM', base .. 'pending', user)
  end
end
local answer = {REASON_OK, call('INCR', base .. 'seq'), now, names, call('ZCOUNT', base .. 'pending', '-inf', '(+inf')}
for i = 1, #found do
  answer[5 + i] = found[i]
end
return answer
