-- SPDX-License-Identifier: Apache-2.0
-- guard.lua: finds a key of the bucket that was deleted, evicted or made anew by a later write. Redis removes a hash or a sorted set with its last member, so
-- absence alone says nothing: users, pending and each free and rest hold one member that no script removes; win has one more bit, and gen one more
-- byte, than is ever written. A key without its guard is lost, whatever else it holds.
-- reserve.lua and look.lua, which are asked most, only refuse; whoever looks at the bucket next, the janitor at the latest, closes it.

-- Whether the generations of a SKU of so many units are all there.
local function gen_whole(sku, units)
  return call('STRLEN', base .. 'gen:' .. sku) == units + 1
end
-- The key `name` has no guard. The bucket is closed, if it is open, and must be indexed again (reindex.lua) before its recovery counts. False: that was known.
-- The index puts every guard back: a key that has none after it was lost once more.
local function lose(name)
  local held = call('HMGET', KEYS[1], 'closed', 'lost', 'indexed')
  local names = held[2] or ''
  local listed = string.find(' ' .. names .. ' ', ' ' .. name .. ' ', 1, true)
  if listed and not held[3] then
    return false
  end
  if not listed then
    call('HSET', KEYS[1], 'lost', names == '' and name or names .. ' ' .. name)
  end
  call('HDEL', KEYS[1], 'indexed')
  if not held[1] then
    call('HSET', KEYS[1], 'closed', new_mark())
  end
  return true
end
