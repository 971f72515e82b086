#!lua
-- reindex.lua: makes a bucket that lost a key fit to be recovered, a slice of its users a call: what follows from their entries is derived anew.
--
--   ARGV   the mark that it is closed under; cursor of SCAN ('0': the beginning)
--   gives  {OK, sequence, cursor of the next slice or '' where that was the last, the mark it is closed under now};
--          {UNCHANGED, sequence, '', mark or ''}: it is not closed under that mark, or has lost nothing; {STALE_EPOCH} alone
--
-- Of each undecided reservation: its user is due to be looked at, if he is not in pending; its unit's highest generation is at least its own; and the unit
-- counts as held, so that restock.lua gives nobody else a copy of it. The last slice puts the guards back and closes the bucket under a new mark: whatever the
-- recovery told before is told again. A lost filter is filled up: everybody is taken for a winner, who then asks Redis instead of hearing SOLD_OUT
-- from the process. Nothing is reserved in a closed bucket, so what one slice has seen stays true until the last.
local meta = call('HMGET', KEYS[1], 'law', 'skus', 'closed', 'lost', 'indexed')
if not meta[1] then
  return {REASON_STALE_EPOCH}
end
if meta[3] ~= ARGV[1] or not meta[4] or meta[5] == meta[3] then
  return {REASON_UNCHANGED, call('INCR', base .. 'seq'), '', meta[3] or ''}
end
local now, skus = now_ms(), {}
for sku in string.gmatch(meta[2], '%S+') do
  local first, units = unpack_at('>I6I6', call('HGET', KEYS[1], 'sku:' .. sku), 3)
  skus[#skus + 1] = {name = sku, first = first, units = units}
  if not gen_whole(sku, units) then
    call('SETRANGE', base .. 'gen:' .. sku, format('%d', units), '\1')
  end
end

local function hold(sku, number, generation)
  local place, unit = number - sku.first, format('%d', number)
  if place < 0 or place >= sku.units then
    return
  end
  local highest = highest_seen(sku.name, unit, place)
  if highest < generation then
    highest_raise(sku.name, unit, place, generation)
  end
  if highest <= generation then
    call('SETBIT', base .. 'held:' .. sku.name, format('%d', place), '1')
  end
end

local scanned = call('HSCAN', base .. 'users', ARGV[2], 'COUNT', '256')
for i = 1, #scanned[2], 2 do
  local user, list, at, waits = scanned[2][i], scanned[2][i + 1], 1, false
  while user ~= GUARD and at <= #list do
    local tail, after = entry_parts(list, at)
    if entry_undecided(list, at) then
      hold(skus[unpack_at('>H', list, at + 17) + 1], unpack_at('>I6I4', list, tail))
      waits = true
    end
    at = after
  end
  if waits then
    call('ZADD', base .. 'pending', 'NX', format('%d', now), user)
  end
end
if scanned[1] ~= '0' then
  return {REASON_OK, call('INCR', base .. 'seq'), scanned[1], meta[3]}
end

call('HSET', base .. 'users', GUARD, '')
call('ZADD', base .. 'pending', '+inf', GUARD)
for _, sku in ipairs(skus) do
  call('ZADD', base .. 'free:' .. sku.name, '+inf', GUARD)
  call('ZADD', base .. 'rest:' .. sku.name, '+inf', GUARD)
end
if string.find(' ' .. meta[4] .. ' ', ' win ', 1, true) then
  local _, _, _, _, bits = unpack_at(LAW, meta[1])
  call('SET', base .. 'win', string.rep('\255', math.floor(bits / 8) + 1))
end
local mark = new_mark()
call('HSET', KEYS[1], 'closed', mark, 'indexed', mark)
return {REASON_OK, call('INCR', base .. 'seq'), '', mark}
