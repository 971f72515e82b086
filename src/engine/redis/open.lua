#!lua
-- open.lua: the bucket has been healed of this closing, and of no other.
--
--   ARGV   the mark that it was closed under
--   gives  {OK or UNCHANGED, sequence, for how many ms it was closed}; {STALE_EPOCH} alone
--
-- A bucket that lost a key is opened only if it was indexed again under this mark: the recovery must have begun after that.
-- Whoever healed it has brought back every unit that is nobody's: it is seeded. It rests as a sale does after a pause: others may still
-- be saying something else of it by themselves.
local meta = call('HMGET', KEYS[1], 'law', 'closed', 'lost', 'indexed', 'skus')
if not meta[1] then
  return {REASON_STALE_EPOCH}
end
local mark, here = ARGV[1], incarnation()
if meta[2] ~= mark or (meta[3] and meta[4] ~= mark) or sub(mark, 1, #here + 1) ~= here .. '/' then
  return {REASON_UNCHANGED, call('INCR', base .. 'seq'), 0}
end
local state, starts, ends, opens, bits = unpack_at(LAW, meta[1])
local now = now_ms()
if opens < now + REST_MS then
  opens = now + REST_MS
end
if meta[3] then
  for sku in string.gmatch(meta[5], '%S+') do
    call('DEL', base .. 'held:' .. sku)
  end
end
call('HDEL', KEYS[1], 'closed', 'lost', 'indexed')
call('HSET', KEYS[1], 'law', pack(LAW, state, starts, ends, opens, bits), 'seeded', '1')
return {REASON_OK, call('INCR', base .. 'seq'), math.max(0, now - math.floor(tonumber(sub(mark, #here + 2)) / 1000))}
