#!lua
-- stock.lua: what the bucket holds, at one moment.
--
--   ARGV   1 where the winners' filter is wanted too, or 0
--   gives  {OK, sequence, now ms, state, version, seeded, the mark it is closed under or '', restocks, pending, incarnation, bits of the filter, filter,
--          keys that were lost and are to be indexed again under this mark or '', then for each SKU: name, free, resting, moving, wanted};
--          {STALE_EPOCH} alone; {STRUCTURE_LOST} alone: a key was found lost, and the bucket is closed now
--
-- Every key is looked at: what is missing from a lost one is not sold out.
-- It counts the sequence on like every script that decides something: so a server that may no longer write cannot answer it,
-- and nobody says "sold out" on the word of a replica. The incarnation names the server and the life of its data.
local meta = call('HMGET', KEYS[1], 'law', 'version', 'seeded', 'closed', 'restocks', 'skus', 'lost', 'indexed')
if not meta[1] then
  return {REASON_STALE_EPOCH}
end
local now = now_ms()
local state, _, _, _, bits = unpack_at(LAW, meta[1])
local found = call('HEXISTS', base .. 'users', GUARD) == 0 and lose('users')
found = not call('ZSCORE', base .. 'pending', GUARD) and lose('pending') or found
found = call('GETBIT', base .. 'win', format('%d', bits)) == 0 and lose('win') or found
for sku in string.gmatch(meta[6], '%S+') do
  local units = unpack_at('>I6', call('HGET', KEYS[1], 'sku:' .. sku), 9)
  found = not call('ZSCORE', base .. 'free:' .. sku, GUARD) and lose('free:' .. sku) or found
  found = not call('ZSCORE', base .. 'rest:' .. sku, GUARD) and lose('rest:' .. sku) or found
  found = not gen_whole(sku, units) and lose('gen:' .. sku) or found
end
if found then
  return {REASON_STRUCTURE_LOST}
end

local function members(key, most)
  return call('ZCOUNT', base .. key, '-inf', most)
end

local answer = {
  REASON_OK, call('INCR', base .. 'seq'), now, state, tonumber(meta[2]), meta[3] and 1 or 0, meta[4] or '',
  tonumber(meta[5]), members('pending', '(+inf'), incarnation(), bits,
  ARGV[1] == '1' and sub(call('GET', base .. 'win') or '', 1, math.floor((bits + 7) / 8)) or '',
  meta[7] and meta[8] ~= meta[4] and meta[7] or '',
}
for sku in string.gmatch(meta[6], '%S+') do
  local ready = members('rest:' .. sku, format('%d', now))
  local rest = members('rest:' .. sku, '(+inf')
  local n = #answer
  answer[n + 1] = sku
  answer[n + 2] = members('free:' .. sku, '(+inf') + ready
  answer[n + 3] = rest - ready
  answer[n + 4] = 0    -- nothing moves between buckets yet
  answer[n + 5] = call('HEXISTS', KEYS[1], 'wanted:' .. sku)
end
return answer
