#!lua flags=no-writes
-- holdings.lua: names the units that the bucket holds, a slice a call.
--
--   ARGV   what to walk: 'free', 'rest' or 'users'; where it stands (from 0: number of the SKU); cursor of SCAN in it ('0': its beginning)
--   gives  {OK, the three for the next slice ('' when that was the last), names of the SKUs,
--          then free and rest: unit, generation;   users: user, his entries}; {STALE_EPOCH} alone
local names = call('HGET', KEYS[1], 'skus')
if not names then
  return {REASON_STALE_EPOCH}
end
local skus = {}
for sku in string.gmatch(names, '%S+') do
  skus[#skus + 1] = sku
end
local what, which, cursor = ARGV[1], tonumber(ARGV[2]), ARGV[3]
if what ~= 'users' and which >= #skus then
  return redis.error_reply('ERR no such place to go on from')
end

local scanned
if what == 'users' then
  scanned = call('HSCAN', base .. 'users', cursor, 'COUNT', 100)
else
  scanned = call('ZSCAN', base .. what .. ':' .. skus[which + 1], cursor, 'COUNT', 100)
end
local answer = {REASON_OK, what, which, scanned[1], names}
if scanned[1] == '0' then
  if what == 'users' then
    answer[2] = ''
  elseif which + 1 < #skus then
    answer[3] = which + 1
  else
    answer[2], answer[3] = what == 'free' and 'rest' or 'users', 0
  end
end
local held = {}
for i = 1, #scanned[2], 2 do
  if scanned[2][i] ~= GUARD then
    held[#held + 1] = scanned[2][i]
    held[#held + 1] = scanned[2][i + 1]
  end
end
if what == 'rest' then
  local sku = skus[which + 1]
  local first = unpack_at('>I6', call('HGET', KEYS[1], 'sku:' .. sku), 3)
  for i = 1, #held, 2 do
    held[i + 1] = tostring(highest_seen(sku, held[i], tonumber(held[i]) - first))
  end
end
for i, value in ipairs(held) do
  answer[5 + i] = value
end
return answer
