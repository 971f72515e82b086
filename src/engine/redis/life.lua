-- SPDX-License-Identifier: Apache-2.0
-- life.lua: the incarnation: this server, and the life of its data. Both change with each restart, the second with each promotion.
local function incarnation()
  local info = call('INFO', 'server', 'replication')
  return sub(string.match(info, 'run_id:(%x+)'), 1, 20) .. '-' .. sub(string.match(info, 'master_replid:(%x+)'), 1, 20)
end
