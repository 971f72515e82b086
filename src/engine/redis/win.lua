-- SPDX-License-Identifier: Apache-2.0
-- win.lua: puts a user into the winners' filter (port/store.h says which bits). h1, h2: the halves of his hash, h2 made odd.
local function win_add(bits, h1, h2)
  call('BITFIELD', base .. 'win', 'SET', 'u1', format('%d', h1 % bits), '1', 'SET', 'u1', format('%d', (h1 + h2) % bits), '1',
    'SET', 'u1', format('%d', (h1 + 2 * h2) % bits), '1', 'SET', 'u1', format('%d', (h1 + 3 * h2) % bits), '1')
end
