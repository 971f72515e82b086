-- SPDX-License-Identifier: Apache-2.0
-- unit.lua: the highest generation seen of a unit. `place` is its place among the units of its SKU, from 0.
local function highest_seen(sku, unit, place)
  place = format('%d', place)
  local seen = byte(call('GETRANGE', base .. 'gen:' .. sku, place, place)) or 0
  if seen == 255 then
    return tonumber(call('HGET', base .. 'high:' .. sku, unit) or '255')    -- high was lost: at least so much
  end
  return seen
end

local function highest_raise(sku, unit, place, generation)
  if generation >= 255 then
    call('HSET', base .. 'high:' .. sku, unit, format('%d', generation))
    generation = 255
  end
  call('SETRANGE', base .. 'gen:' .. sku, format('%d', place), char(generation))
end
