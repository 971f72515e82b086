#!lua
-- install.lua: a bucket learns of its activity.
--
--   ARGV   state, version, starts ms, ends ms, 1 where every unit has been counted here + 2 where a missing bucket is created, bits of the winners'
--          filter, names of the SKUs joined by blanks, then for each SKU: name, index u16 + first unit u48 + units u48 (packed), units
--   gives  {OK or UNCHANGED, sequence}; {STALE_EPOCH} alone: it is missing and was not to be created
--
-- Takes state and window of a higher version. Only seeding creates the data where there is none: a bucket that has sold and is missing was lost, and an
-- empty one in its place would not know its winners. seeded is only ever set. A sale that goes on after a pause or an end rests as a
-- unit does: others may still be saying by themselves that it is paused or over.
local meta = call('HMGET', KEYS[1], 'law', 'version', 'seeded')
local state, version, starts, ends = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local flags = tonumber(ARGV[5])
local now, reason = now_ms(), REASON_UNCHANGED

-- Versions are compared as the whole numbers they are, whatever their length.
local function above(a, b)
  return #a > #b or (#a == #b and a > b)
end

if not meta[1] and flags < 2 then
  return {REASON_STALE_EPOCH}
end
if not meta[1] then
  call('HSET', KEYS[1], 'law', pack(LAW, state, starts, ends, 0, tonumber(ARGV[6])), 'version', version, 'restocks', '0', 'skus', ARGV[7])
  for a = 8, #ARGV, 3 do
    call('HSET', KEYS[1], 'sku:' .. ARGV[a], ARGV[a + 1])
    call('SETRANGE', base .. 'gen:' .. ARGV[a], ARGV[a + 2], '\1')    -- one byte beyond the units: the guard
    call('ZADD', base .. 'free:' .. ARGV[a], '+inf', GUARD)
    call('ZADD', base .. 'rest:' .. ARGV[a], '+inf', GUARD)
  end
  call('SETBIT', base .. 'win', ARGV[6], '1')    -- one bit beyond the filter's
  call('HSET', base .. 'users', GUARD, '')
  call('ZADD', base .. 'pending', '+inf', GUARD)
  reason = REASON_OK
elseif above(version, meta[2]) then
  local was, _, was_ends, opens, bits = unpack_at(LAW, meta[1])
  if state == ACTIVITY_OPEN and (was == ACTIVITY_PAUSED or now >= was_ends) then
    opens = now + REST_MS
  end
  call('HSET', KEYS[1], 'law', pack(LAW, state, starts, ends, opens, bits), 'version', version)
  reason = REASON_OK
end
if flags % 2 == 1 and not meta[3] then
  call('HSET', KEYS[1], 'seeded', '1')
  reason = REASON_OK
end
return {reason, call('INCR', base .. 'seq')}
