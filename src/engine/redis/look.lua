#!lua flags=no-writes
-- look.lua: what is known of a user.
--
--   ARGV   user
--   gives  {OK, now ms, names of the SKUs, his entries, sequence}; {STALE_EPOCH} alone
local names = call('HGET', KEYS[1], 'skus')
if not names then
  return {REASON_STALE_EPOCH}
end
return {REASON_OK, now_ms(), names, call('HGET', base .. 'users', ARGV[1]) or '', tonumber(call('GET', base .. 'seq') or '0')}
