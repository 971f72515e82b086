#!lua
-- prove.lua: a write, as small as one can be, in a bucket that no activity has: a server that is read-only, full or may not save refuses it.
--
--   ARGV   -
--   gives  {OK, maxmemory-policy, whether there is an append-only file: '1' or '0'}; '' for both where the server does not tell
local info = redis.pcall('INFO', 'memory', 'persistence')
local told = type(info) == 'string' and info or ''
call('SET', base .. 'probe', '1', 'PX', 60000)
return {REASON_OK, string.match(told, '\nmaxmemory_policy:([%w-]+)') or '', string.match(told, '\naof_enabled:(%d)') or ''}
