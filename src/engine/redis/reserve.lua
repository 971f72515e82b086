#!lua
-- reserve.lua: takes one unit for a user, or finds what he has. Constant work: no more commands however large the sale.
--
--   ARGV   user, sku, request, nonce or '', packed: ident 16 | h1 u32 | h2 u32 (of the filter) | u8: 1 where nothing new may be taken
--          + 2 where the ledger was asked about this request_id + 4 where the caller does not trust this server's memory
--   gives  {reason, sequence, now ms, entry or '', starts ms, 1 where it is a replay}; {STALE_EPOCH} alone
--
-- STRUCTURE_LOST: a key that this call needs has lost its guard (guard.lua), as if the bucket were closed; nothing was taken.
-- The order of the checks is the protocol's (§2): the user's own entries are looked at before anything that could refuse him, so
-- a winner's retry finds his reservation after the end, in a pause, in a closed bucket. Everything is validated before the first write.
local user, sku, request, nonce = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local h1, h2, flags = unpack_at('>I4I4B', ARGV[5], 17)
local meta = call('HMGET', KEYS[1], 'law', 'closed', 'sku:' .. sku)
if not meta[1] then
  return {REASON_STALE_EPOCH}
end
local state, starts, ends, opens, bits = unpack_at(LAW, meta[1])
local now = now_ms()
local index = meta[3] and sub(meta[3], 1, 2)

local function answer(reason, entry, replayed)
  return {reason, call('INCR', base .. 'seq'), now, entry or '', starts, replayed or 0}
end

-- What he has: the entry that wins for each question.
local his = call('HMGET', base .. 'users', user, GUARD)
if not his[2] then
  return answer(REASON_STRUCTURE_LOST)
end
local list = his[1] or ''
local ordered, undecided, released, elsewhere, standing, nonce_used
local tombstones, at = 0, 1
while at <= #list do
  local tail, after = entry_parts(list, at)
  local standing_at = byte(list, at + 16)
  local same_sku = sub(list, at + 17, at + 18) == index
  if sub(list, at + 30, tail - 1) == request then
    if not same_sku then
      elsewhere = true
    elseif standing_at == RESERVATION_ORDERED then
      ordered = ordered or sub(list, at, after - 1)
    elseif standing_at == RESERVATION_RELEASED then
      released = released or sub(list, at, after - 1)
    else
      undecided = undecided or sub(list, at, after - 1)
    end
  end
  if standing_at == RESERVATION_RELEASED then
    tombstones = tombstones + 1
  else
    if same_sku and (not standing or standing_at == RESERVATION_ORDERED) then
      standing = sub(list, at, after - 1)
    end
    if nonce ~= '' and sub(list, tail + 11, after - 1) == nonce then
      nonce_used = true
    end
  end
  at = after
end

if ordered then
  return answer(REASON_ORDERED, ordered, 1)
elseif undecided then
  return answer(REASON_QUEUED, undecided, 1)
elseif released then
  return answer(REASON_RELEASED, released, 1)
elseif elsewhere then
  return answer(REASON_IDEMPOTENCY_CONFLICT)
elseif standing then
  return answer(REASON_ALREADY_PURCHASED, standing)
elseif not index then
  return answer(REASON_UNKNOWN_ACTIVITY)
elseif tombstones >= TOMBSTONES and flags % 4 < 2 then
  return answer(REASON_ASK_LEDGER)
elseif meta[2] then
  return answer(REASON_BUCKET_CLOSED)
elseif nonce_used or flags % 2 == 1 then
  return answer(REASON_QUALIFICATION_INVALID)
end

if state == ACTIVITY_CLOSED then
  return answer(REASON_ENDED)
elseif state == ACTIVITY_PAUSED then
  return answer(REASON_RESERVATION_PAUSED)
elseif state ~= ACTIVITY_OPEN or now < starts then
  return answer(REASON_NOT_STARTED)
elseif now >= ends then
  return answer(REASON_ENDED)
elseif now < opens then
  return answer(REASON_RESERVATION_PAUSED)
elseif flags >= 4 then
  return answer(REASON_BUCKET_CLOSED)
end

-- A unit: a free one, else one that has rested enough. The pop is the first write; nothing after it can fail.
local unit, generation
local popped = call('ZPOPMIN', base .. 'free:' .. sku)
if not popped[1] then
  return answer(REASON_STRUCTURE_LOST)
elseif popped[1] ~= GUARD then
  unit, generation = popped[1], tonumber(popped[2])
else
  call('ZADD', base .. 'free:' .. sku, '+inf', GUARD)
  local first = call('ZRANGE', base .. 'rest:' .. sku, '0', '0', 'WITHSCORES')
  if not first[1] then
    return answer(REASON_STRUCTURE_LOST)
  end
  if first[1] == GUARD or tonumber(first[2]) > now then
    if call('HEXISTS', KEYS[1], 'wanted:' .. sku) == 0 then
      call('HSET', KEYS[1], 'wanted:' .. sku, '1')
    end
    return answer(REASON_BUCKET_EMPTY)
  end
  unit = first[1]
  local first_unit, units = unpack_at('>I6I6', meta[3], 3)
  if call('STRLEN', base .. 'gen:' .. sku) ~= units + 1 then
    return answer(REASON_STRUCTURE_LOST)
  end
  generation = highest_seen(sku, unit, tonumber(unit) - first_unit)
  call('ZREM', base .. 'rest:' .. sku, unit)
end
local entry = sub(ARGV[5], 1, 16) .. char(RESERVATION_RESERVED) .. index .. pack('>I6I4B', now, 0, #request) .. request
  .. pack('>I6I4B', tonumber(unit), generation, #nonce) .. nonce
call('HSET', base .. 'users', user, entry .. list)
call('ZADD', base .. 'pending', 'LT', format('%d', now + 1000), user)
win_add(bits, h1, h2)
return answer(REASON_QUEUED, entry)
