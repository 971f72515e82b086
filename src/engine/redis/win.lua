-- SPDX-License-Identifier: Apache-2.0
-- win.lua: puts a user into the winners' filter (port/store.h says which bits). h1, h2: the halves of his hash, h2 made odd.
local function win_add(bits, h1, h2)
  bits = tonumber(bits)
  local a, b, c, d = h1 % bits, (h1 + h2) % bits, (h1 + 2 * h2) % bits, (h1 + 3 * h2) % bits
  call('BITFIELD', base .. 'win', 'SET', 'u1', a, 1, 'SET', 'u1', b, 1, 'SET', 'u1', c, 1, 'SET', 'u1', d, 1)
end
