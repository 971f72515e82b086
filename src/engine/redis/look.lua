#!lua flags=no-writes
-- look.lua: what is known of a user.
--
--   ARGV   user
--   gives  {OK, now ms, names of the SKUs, his entries, sequence}; {STALE_EPOCH} or {STRUCTURE_LOST} alone
local names = call('HGET', KEYS[1], 'skus')
if not names then
  return {REASON_STALE_EPOCH}
end
local held = call('HMGET', base .. 'users', ARGV[1], GUARD)
if not held[2] then
  return {REASON_STRUCTURE_LOST}    -- that nothing is found says nothing
end
return {REASON_OK, now_ms(), names, held[1] or '', tonumber(call('GET', base .. 'seq') or '0')}
