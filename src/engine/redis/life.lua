-- SPDX-License-Identifier: Apache-2.0
-- life.lua: the incarnation: this server, and the life of its data. Both change with each restart, the second with each promotion.
local function incarnation()
  local info = call('INFO', 'server', 'replication')
  return sub(string.match(info, 'run_id:(%x+)'), 1, 20) .. '-' .. sub(string.match(info, 'master_replid:(%x+)'), 1, 20)
end

-- The mark of a closing that begins now: the incarnation and this moment, so that no two are alike.
local function new_mark()
  local t = call('TIME')
  return incarnation() .. '/' .. t[1] .. format('%06d', tonumber(t[2]))
end
