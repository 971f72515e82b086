#!lua
-- restock.lua: units come back, or come for the first time. Up to 64 items a call.
--
--   ARGV   for each item: sku, unit, generation
--   gives  {OK, sequence, reason of each item}; {STALE_EPOCH} alone
--
-- In a bucket that is closed because a key of this SKU was lost, nothing is taken before it has been indexed again (STRUCTURE_LOST: the caller comes again). Then
-- the highest generation seen is taken too, for its copy may have been in the lost key, unless somebody holds that unit (held, reindex.lua).
-- Only a generation above the highest seen is a return; it replaces whatever copy of the unit was there. It never depends on an
-- entry. Before the bucket is seeded nobody can have said that it is sold out: such units are free at once, all others rest first.
local meta = call('HMGET', KEYS[1], 'law', 'seeded', 'closed', 'lost', 'indexed')
if not meta[1] then
  return {REASON_STALE_EPOCH}
end
local ready = format('%d', now_ms() + REST_MS)
local shelves, answers, came = {}, {REASON_OK, call('INCR', base .. 'seq')}, 0

local function is_lost(name)
  return string.find(' ' .. meta[4] .. ' ', ' ' .. name .. ' ', 1, true)
end

local function shelf(sku)
  local known = shelves[sku]
  if known == nil then
    local packed = call('HGET', KEYS[1], 'sku:' .. sku)
    known = packed and {unpack_at('>I6I6', packed, 3)}
    shelves[sku] = known
    if known and not gen_whole(sku, known[2]) and lose('gen:' .. sku) then
      meta = call('HMGET', KEYS[1], 'law', 'seeded', 'closed', 'lost', 'indexed')
    end
    if known and meta[4] and (is_lost('free:' .. sku) or is_lost('rest:' .. sku) or is_lost('gen:' .. sku)) then
      known.lost = true
      known.whole = meta[5] and meta[5] == meta[3]
    end
  end
  return known
end

-- Whether a unit at the highest generation seen may be missing from a lost key. Where users were lost too, nobody can say who holds it.
local function may_be_missing(sku, on, place)
  return on.lost and not is_lost('users') and call('GETBIT', base .. 'held:' .. sku, format('%d', place)) == 0
end

local function restock(sku, unit, generation)
  local on = shelf(sku)
  local place = on and tonumber(unit) - on[1]
  if not on or place < 0 or place >= on[2] then
    return REASON_UNKNOWN_ACTIVITY
  end
  if on.lost and not on.whole then
    return REASON_STRUCTURE_LOST
  end
  local highest = highest_seen(sku, unit, place)
  if generation <= highest and (generation < highest or not may_be_missing(sku, on, place)) then
    return REASON_UNCHANGED
  end
  highest_raise(sku, unit, place, generation)
  if meta[4] then    -- its holder held an older generation: if another key is lost before the bucket opens, this copy must come back too
    call('SETBIT', base .. 'held:' .. sku, format('%d', place), '0')
  end
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
