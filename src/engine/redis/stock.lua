#!lua
-- stock.lua: what the bucket holds, at one moment.
--
--   ARGV   1 where the winners' filter is wanted too, or 0
--   gives  {OK, sequence, now ms, state, version, seeded, the mark it is closed under or '', restocks, pending, incarnation, bits of the filter, filter,
--          then for each SKU: name, free, resting, moving, wanted}; {STALE_EPOCH} alone
--
-- It counts the sequence on like every script that decides something: so a server that may no longer write cannot answer it,
-- and nobody says "sold out" on the word of a replica. The incarnation names the server and the life of its data.
local meta = call('HMGET', KEYS[1], 'law', 'version', 'seeded', 'closed', 'restocks', 'skus')
if not meta[1] then
  return {REASON_STALE_EPOCH}
end
local now = now_ms()
local state, _, _, _, bits = unpack_at(LAW, meta[1])
local answer = {
  REASON_OK, call('INCR', base .. 'seq'), now, state, tonumber(meta[2]), meta[3] and 1 or 0, meta[4] or '',
  tonumber(meta[5]), call('ZCARD', base .. 'pending'), incarnation(), bits,
  ARGV[1] == '1' and call('GET', base .. 'win') or '',
}
for sku in string.gmatch(meta[6], '%S+') do
  local rest = call('ZCARD', base .. 'rest:' .. sku)
  local ready = rest > 0 and call('ZCOUNT', base .. 'rest:' .. sku, '-inf', format('%d', now)) or 0
  local n = #answer
  answer[n + 1] = sku
  answer[n + 2] = call('ZCARD', base .. 'free:' .. sku) + ready
  answer[n + 3] = rest - ready
  answer[n + 4] = 0    -- nothing moves between buckets yet
  answer[n + 5] = call('HEXISTS', KEYS[1], 'wanted:' .. sku)
end
return answer
