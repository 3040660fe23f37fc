/**
 * Acquires several locks in one step. A separate script, so that acquiring one lock stays as short as it is. Not for a Cluster, where
 * each lock has its own slot.
 */
import type { Script } from './batch-script.js'
import { line } from './queue.js'
import { state } from './state.js'

/**
 * Takes all, or takes none and leaves no attempt behind; it passes no waiter. KEYS: the boot marker if there is one, then h, q, d of
 * each lock. ARGV: as for every script, then for each lock the arguments of `acquire`. The locks have different names. Result:
 * `<token> <1 = others wait>` of each · 'o' an attempt has ended before · `l <index in the list> <limit>` another limit is in use ·
 * 'b' one is not free · 'z' one is not free, and its holder may only keep it cached (core/caching.ts) · 'm' meet the server again.
 */
export const together: Script = {
  name: 'together',
  args: 5,
  text: `#!lua
local call = redis.call
local tm = call('TIME')
local wall = tm[1] * 1000000 + tm[2]
local clear, me = ARGV[1], ARGV[2]
-- Of a Cluster alone.
local slotBar, slotTill
${state}${line}
flips = true
local all, refused = {}, nil
local k = clear == '' and 1 or 2
for i = 6, #ARGV, 5 do
  local S = load(KEYS[k], KEYS[k + 1], KEYS[k + 2])
  local id, kind, take, of = ARGV[i], ARGV[i + 1], string.match(ARGV[i + 3], '^(%d+) (%d+)')
  take, of = tonumber(take), tonumber(of)
  k = k + 3
  overdue(S)
  local till, met = barred()
  if till == 0 and S.m ~= 'x' then advance(S) end
  keep(S)
  all[#all + 1] = { S, id, kind, take, of, tonumber(ARGV[i + 2]), ARGV[i + 4] }
  if ended(S, id) then return 'o' end
  if met then
    refused = 'm'
  elseif till > 0 then
    refused = refused or 'b'
  elseif not holds(S, id) then
    if kind == 'p' and S.m == 'p' then
      permits(S)
      if S.of ~= of then return 'l ' .. num(#all) .. ' ' .. num(S.of) end
    end
    if S.line or not S.open or not admits(S, kind, take, of) then
      refused = refused or S.m == 'x' and string.sub(S.o, -1) == 'z' and 'z' or 'b'
    end
  end
end
if refused then return refused end
local replies = {}
for _, one in ipairs(all) do
  local S, id, kind, take, of, ttl, note = unpack(one)
  if not holds(S, id) then
    grant(S, id, kind, take, of, ttl, chan, by, note)
    save(S)
  elseif S.m == 'x' then
    local _, _, since, _, _, text = hold(S, id)
    S.r = since .. ' ' .. chan .. ' ' .. by .. ' ' .. text
    prolong(S, id, S.now + ttl)
    save(S)
  else
    prolong(S, id, S.now + ttl)
  end
  replies[#replies + 1] = num((hold(S, id))) .. (S.line and ' 1' or ' 0')
end
return replies
`,
}
