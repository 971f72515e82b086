#!lua
-- close.lua: the bucket may have forgotten what it said: it takes nothing new until it is opened under this closing's mark.
--
--   ARGV   the incarnation that the ledger has recorded, or ''; 1 where an answer was older than what had been seen before, or 0; the highest sequence seen
--   gives  {OK or UNCHANGED, sequence, incarnation, mark or ''}; {STALE_EPOCH} alone
--
-- The server judges by itself whether it is the recorded one. A mark is the incarnation and this moment: whoever healed one closing cannot
-- open the next. The sequence jumps to the highest seen, or whoever has seen that would find it going back for ever.
local meta = call('HMGET', KEYS[1], 'law', 'closed')
if not meta[1] then
  return {REASON_STALE_EPOCH}
end
local now, back = incarnation(), ARGV[2] == '1'
local mark, seen = meta[2] or '', tonumber(ARGV[3])
local reason = REASON_UNCHANGED
local ours = sub(mark, 1, #now + 1) == now .. '/'    -- a mark of an earlier life nobody could open any more
if back or (not ours and (now ~= ARGV[1] or mark ~= '')) then
  mark = new_mark()
  call('HSET', KEYS[1], 'closed', mark)
  reason = REASON_OK
end
if tonumber(call('GET', base .. 'seq') or '0') < seen then
  call('SET', base .. 'seq', format('%d', seen))
end
return {reason, call('INCR', base .. 'seq'), now, mark}
