/** Giving back, proving again, giving up. Taking stands in `acquire.ts`; what is common to all in `state.ts` and `line.ts`. */
import { type Script, script } from './frame.js'
import { fastRelease, fastRenew } from './short-cuts.js'

/** Gives a hold back and lets in who is next. ARGV per item: attempt, last token used. Result: 1 it was held · 2 ended before · 0 neither. */
export const release: Script = script(
  'release',
  2,
  `
local function item(h, q, d, id, last)
  local S = load(h, q, d)
  look(S)
  if not holds(S, id) then
    keep(S)
    return ended(S, id) and 2 or 0
  end
  leave(S, id, tonumber(last))
  remember(S, id)
  if S.line then advance(S) end
  save(S, 'x', S.x)
  return 1
end`,
  fastRelease,
)

/** Proves holds again. ARGV per item: attempt, ttl µs. Result: 1, or 0 when it is not held. */
export const renew: Script = script(
  'renew',
  2,
  `
local function item(h, q, d, id, ttl)
  local S = load(h, q, d)
  look(S)
  if holds(S, id) then
    if S.m == 'x' then S.e = S.now + ttl else call('ZADD', d, S.now + ttl, id) end
    save(S)
    return 1
  end
  keep(S)
  return 0
end`,
  fastRenew,
)

/**
 * Ends an attempt wherever it is. ARGV per item: attempt, µs for which a late request of it is to be refused (0: none
 * can be on its way). Result: 1 it held or waited, else 0.
 */
export const cancel: Script = script(
  'cancel',
  2,
  `
local function item(h, q, d, id, ghost)
  local S = load(h, q, d)
  look(S)
  local was = 0
  if holds(S, id) then
    leave(S, id, S.t)
    was = 1
  else
    local w = S.line and waiter(S, id)
    if w then was = outOfLine(S, id, w.kind) end
  end
  remember(S, id, ghost ~= '0' and S.now + ghost)
  if S.line and S.m ~= 'x' then advance(S) end
  if S.line and call('EXISTS', q) == 0 then S.line = false end
  if S.known then
    save(S, 'x', S.x)
  else
    call('HSET', h, 'x', S.x)
    call('PEXPIRE', h, ARGV[4])
  end
  return was
end`,
)

/** Exclusive to shared in one step. ARGV per item: attempt, last token used. Result: the token as it is now, '0' when not held so. */
export const downgrade: Script = script(
  'downgrade',
  2,
  `
local function item(h, q, d, id, last)
  local S = load(h, q, d)
  look(S)
  if S.m == 's' and holds(S, id) then
    keep(S)
    return num((hold(S, id)))
  end
  if S.m == 'x' and S.o == id then
    S.t = math.min(math.max(tonumber(last), S.t), S.t + reserve)
    call('HSET', h, 'h:' .. id, num(S.t) .. ' 1 ' .. S.r)
    call('ZADD', d, S.e, id)
    local token = num(S.t)
    S.m, S.o, S.r = 's', '-', ''
    advance(S)
    save(S)
    return token
  end
  keep(S)
  return '0'
end`,
)

/** Ends every hold and tells the holders. ARGV per item: a filler. Result: how many it ended that were not overdue. */
export const force: Script = script(
  'force',
  1,
  `
local function item(h, q, d)
  local S = load(h, q, d)
  overdue(S)
  local ids = S.m == 'x' and { S.o } or S.m == '-' and {} or call('ZRANGE', d, 0, -1)
  for _, id in ipairs(ids) do
    local _, _, _, channel = hold(S, id)
    if channel and not none(channel) then tell(channel, 'x ' .. id) end
    leave(S, id)
  end
  advance(S)
  if S.known then save(S) end
  return #ids
end`,
)
