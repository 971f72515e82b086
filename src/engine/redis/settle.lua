#!lua
-- settle.lua: tells a bucket what became of reservations. Up to 64 items a call.
--
--   ARGV   the items, one after another; each: user, packed: ident 16 | state u8; and with a verdict (ORDERED, RELEASED) also
--          packed: unit u48 (0: none) | generation u32 | h1 u32 | h2 u32 (of the filter; h2 0: not known), why or '', request, sku,
--          superseded_by or '', and with one: its ident (16 bytes), request, sku
--   gives  {OK, sequence, reason of each item}; {STALE_EPOCH} alone
--
-- Only the entry named by the ident moves, only forward, only by a move of spec/reservation.def. Only a verdict adds an entry that is
-- not there. ORDERED also removes copies of the unit at its generation or an older one and raises its highest generation to at least
-- that one; told again it does so again, for the bucket may have forgotten in between. A closed bucket takes all of this; while a key is lost the order's unit
-- counts as held (restock.lua), and its user goes into the filter, which may have been lost.
local meta = call('HMGET', KEYS[1], 'law', 'skus', 'lost')
if not meta[1] then
  return {REASON_STALE_EPOCH}
end
if call('HEXISTS', base .. 'users', GUARD) == 0 then
  lose('users')    -- what is told here is told again by the recovery
end
local now = now_ms()
local shelves = {}

-- {index (2 bytes), first unit, units}, or false where the bucket does not know the SKU.
local function shelf(sku)
  local known = shelves[sku]
  if known == nil then
    local packed = call('HGET', KEYS[1], 'sku:' .. sku)
    known = packed and {sub(packed, 1, 2), unpack_at('>I6I6', packed, 3)}
    shelves[sku] = known
    if known and not gen_whole(sku, known[3]) then
      lose('gen:' .. sku)
    end
  end
  return known
end

-- The name of a SKU by its index in an entry.
local function sku_named(index)
  local left = unpack_at('>H', index)
  for name in string.gmatch(meta[2], '%S+') do
    if left == 0 then
      return name
    end
    left = left - 1
  end
end

local function found(list, ident)
  local at = 1
  while at <= #list do
    local tail, after = entry_parts(list, at)
    if sub(list, at, at + 15) == ident then
      return at, tail, after
    end
    at = after
  end
end

local function any_undecided(list)
  local at = 1
  while at <= #list do
    if entry_undecided(list, at) then
      return true
    end
    local _, after = entry_parts(list, at)
    at = after
  end
  return false
end

local function only_last_tombstones(list)
  local kept, count, at = {}, 0, 1
  while at <= #list do
    local _, after = entry_parts(list, at)
    if byte(list, at + 16) == RESERVATION_RELEASED then
      count = count + 1
    end
    if byte(list, at + 16) ~= RESERVATION_RELEASED or count <= TOMBSTONES then
      kept[#kept + 1] = sub(list, at, after - 1)
    end
    at = after
  end
  return table.concat(kept)
end

local function may_move(from, to)
  local place = from * RESERVATION_COUNT + to + 1
  return sub(RESERVATION_MOVES, place, place) == '1'
end

-- The entry at `at`, now in another state. A RELEASED one gives up unit and nonce and says why.
local function moved(list, at, tail, after, state, why, by)
  local created = unpack_at('>I6', list, at + 19)
  local age = math.min(math.max(now - created, 0), 4294967295)
  local head = sub(list, at, at + 15) .. char(state) .. sub(list, at + 17, at + 24) .. pack('>I4', age) .. sub(list, at + 29, tail - 1)
  if state == RESERVATION_RELEASED then
    return head .. char(#why) .. why .. char(#by) .. by
  end
  return head .. sub(list, tail, after - 1)
end

local function added(ident, state, index, request, why, by, unit, generation)
  local head = ident .. char(state) .. index .. pack('>I6I4B', now, 0, #request) .. request
  if state == RESERVATION_RELEASED then
    return head .. char(#why) .. why .. char(#by) .. by
  end
  return head .. pack('>I6I4B', unit, generation, 0)
end

-- An ordered unit is nobody's to sell, at that generation or an older one. `held`: the entry itself was holding it at that generation;
-- then, while that is the highest seen, there is no copy to remove.
local function withdraw(sku, on, number, generation, held)
  local place, unit = number - on[2], format('%d', number)
  if place < 0 or place >= on[3] then
    return
  end
  local highest = highest_seen(sku, unit, place)
  if highest <= generation then
    if meta[3] then
      call('SETBIT', base .. 'held:' .. sku, format('%d', place), '1')
    end
    if not held or highest ~= generation then
      call('ZREM', base .. 'free:' .. sku, unit)
      call('ZREM', base .. 'rest:' .. sku, unit)
    end
    if highest < generation then
      highest_raise(sku, unit, place, generation)
    end
  end
end

local function settle_move(user, ident, to)
  local list = call('HGET', base .. 'users', user) or ''
  local at, tail, after = found(list, ident)
  if not at or not may_move(byte(list, at + 16), to) then
    return REASON_UNCHANGED
  end
  call('HSET', base .. 'users', user, sub(list, 1, at - 1) .. moved(list, at, tail, after, to) .. sub(list, after))
  return REASON_OK
end

local function settle_verdict(user, ident, to, v)
  local before = call('HGET', base .. 'users', user) or ''
  local list, reason, wins, held = before, REASON_UNCHANGED, false, false
  local at, tail, after = found(list, ident)
  if at and v.sku == '' then
    v.sku = sku_named(sub(list, at + 17, at + 18))
  end
  local on, other_on = shelf(v.sku), v.by ~= '' and shelf(v.other_sku)
  if not on or (v.by ~= '' and not other_on) then
    return REASON_UNKNOWN_ACTIVITY
  end
  if not at then
    list = added(ident, to, on[1], v.request, v.why, v.by, v.unit, v.generation) .. list
    reason, wins = REASON_OK, true
  elseif may_move(byte(list, at + 16), to) then
    held = sub(list, tail, tail + 9) == sub(v.packed, 1, 10)
    list = sub(list, 1, at - 1) .. moved(list, at, tail, after, to, v.why, v.by) .. sub(list, after)
    reason = REASON_OK
  end
  if v.by ~= '' then    -- the order that stands instead: he sees that one, and may not buy again
    at, tail, after = found(list, v.other)
    if not at then
      list = added(v.other, RESERVATION_ORDERED, other_on[1], v.other_request, '', '', 0, 0) .. list
      wins = true
    elseif may_move(byte(list, at + 16), RESERVATION_ORDERED) then
      list = sub(list, 1, at - 1) .. moved(list, at, tail, after, RESERVATION_ORDERED) .. sub(list, after)
    end
  end
  if list ~= before then
    if to == RESERVATION_RELEASED then
      list = only_last_tombstones(list)
    end
    call('HSET', base .. 'users', user, list)
    if not any_undecided(list) then
      call('ZREM', base .. 'pending', user)
    end
  end
  if (wins or meta[3]) and v.h2 ~= 0 then
    win_add(unpack_at('>I4', meta[1], 20), v.h1, v.h2)
  end
  if to == RESERVATION_ORDERED and v.unit ~= 0 then
    withdraw(v.sku, on, v.unit, v.generation, held)
  end
  return reason
end

local answers, a = {REASON_OK, call('INCR', base .. 'seq')}, 1
while a <= #ARGV do
  local user, ident, to = ARGV[a], sub(ARGV[a + 1], 1, 16), byte(ARGV[a + 1], 17)
  if to ~= RESERVATION_ORDERED and to ~= RESERVATION_RELEASED then
    answers[#answers + 1] = settle_move(user, ident, to)
    a = a + 2
  else
    local v = {packed = ARGV[a + 2], why = ARGV[a + 3], request = ARGV[a + 4], sku = ARGV[a + 5], by = ARGV[a + 6]}
    v.unit, v.generation, v.h1, v.h2 = unpack_at('>I6I4I4I4', v.packed)
    a = a + 7
    if v.by ~= '' then
      v.other, v.other_request, v.other_sku = ARGV[a], ARGV[a + 1], ARGV[a + 2]
      a = a + 3
    end
    answers[#answers + 1] = settle_verdict(user, ident, to, v)
  end
end
return answers
