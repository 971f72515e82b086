-- SPDX-License-Identifier: Apache-2.0
-- entry.lua: what the scripts of a bucket share. Every script gets KEYS[1], the bucket's meta key; the other keys of the bucket differ
-- from it in the last word only, so they lie in the same slot. All of them carry the activity's epoch: what belongs to another life of
-- the activity is out of reach, and an absent meta key means "another epoch", never "empty". The keys and what they
-- hold: spec/redis_key.def (printed: docs/reference/redis.md).
--
-- A copy in free or rest always has the highest generation seen of its unit: whatever raises that one replaces or removes the copy.
--
-- An entry:  ident 16 | state u8 | index of the SKU u16 | created u48 ms | updated u32 ms after it | n u8, request n | tail
--   tail of a RELEASED one:  n u8, why (its word) n | n u8, superseded_by n
--   tail of any other:       unit u48 | generation u32 | n u8, nonce n
-- State numbers are the rows of spec/reservation.def: rows are only ever added at its end.
--
-- What is packed need not be turned from text into numbers and back by every call, which is what Lua in Redis spends its time on; for the
-- same reason numbers go to commands as texts made by format('%d'), not as Lua numbers, which Redis prints as floating point.
local call, sub, byte, char, format, pack, unpack_at = redis.call, string.sub, string.byte, string.char, string.format, struct.pack, struct.unpack

local base = sub(KEYS[1], 1, -5)
local LAW = '>BI6I6I6I4'
local GUARD = '#'         -- a member of each key that must not be missing (guard.lua): neither a user nor a unit
local TOMBSTONES = 4    -- of a user; an older request_id is asked of the ledger
local REST_MS = 300     -- a unit that came back is counted but not sold: longer than anybody may say SOLD_OUT by himself

local function now_ms()
  local t = call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- Where the tail of the entry at `at` begins, and where the next entry begins.
local function entry_parts(list, at)
  local tail = at + 30 + byte(list, at + 29)
  if byte(list, at + 16) ~= RESERVATION_RELEASED then
    return tail, tail + 11 + byte(list, tail + 10)
  end
  local by = tail + 1 + byte(list, tail)
  return tail, by + 1 + byte(list, by)
end

local function entry_undecided(list, at)
  local state = byte(list, at + 16)
  return state ~= RESERVATION_ORDERED and state ~= RESERVATION_RELEASED
end
