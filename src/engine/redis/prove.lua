#!lua
-- prove.lua: a write, as small as one can be, in a bucket that no activity has: a server that is read-only, full or may not save refuses it.
--
--   ARGV   -
--   gives  {OK}
call('SET', base .. 'probe', '1', 'PX', 60000)
return {REASON_OK}
