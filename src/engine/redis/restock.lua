#!lua
-- restock.lua: units come back, or come for the first time. Up to 64 items a call.
--
--   ARGV   for each item: sku, unit, generation
--   gives  {OK, sequence, reason of each item}; {STALE_EPOCH} alone
--
-- Only a generation above the highest seen is a return; it replaces whatever copy of the unit was there. It never depends on an
-- entry. Before the bucket is seeded nobody can have said that it is sold out: such units are free at once, all others rest first.
local meta = call('HMGET', KEYS[1], 'law', 'seeded')
if not meta[1] then
  return {REASON_STALE_EPOCH}
end
local ready = format('%d', now_ms() + REST_MS)
local shelves, answers, came = {}, {REASON_OK, call('INCR', base .. 'seq')}, 0

local function shelf(sku)
  local known = shelves[sku]
  if known == nil then
    local packed = call('HGET', KEYS[1], 'sku:' .. sku)
    known = packed and {unpack_at('>I6I6', packed, 3)}
    shelves[sku] = known
  end
  return known
end

local function restock(sku, unit, generation)
  local on = shelf(sku)
  local place = on and tonumber(unit) - on[1]
  if not on or place < 0 or place >= on[2] then
    return REASON_UNKNOWN_ACTIVITY
  end
  if generation <= highest_seen(sku, unit, place) then
    return REASON_UNCHANGED
  end
  highest_raise(sku, unit, place, generation)
  if meta[2] then
    call('ZREM', base .. 'free:' .. sku, unit)
    call('ZADD', base .. 'rest:' .. sku, ready, unit)
  else
    call('ZREM', base .. 'rest:' .. sku, unit)
    call('ZADD', base .. 'free:' .. sku, format('%d', generation), unit)
  end
  on.came = true
  came = came + 1
  return REASON_OK
end

for a = 1, #ARGV, 3 do
  answers[#answers + 1] = restock(ARGV[a], ARGV[a + 1], tonumber(ARGV[a + 2]))
end
if came > 0 then
  call('HINCRBY', KEYS[1], 'restocks', came)
  for sku, on in pairs(shelves) do
    if on and on.came then
      call('HDEL', KEYS[1], 'wanted:' .. sku)
    end
  end
end
return answers
