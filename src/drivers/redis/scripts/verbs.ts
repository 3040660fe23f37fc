/** The scripts that release, renew, cancel, downgrade and force-release. `acquire.ts` acquires; `state.ts` and `queue.ts` are shared by all. */
import { type Script, script } from './batch-script.js'
import { fastRelease, fastRenew } from './fast-paths.js'

/** How long a repeated force-release is recognised, in µs: much longer than clients resend a request. */
const orderKnown = 60_000_000

/**
 * Releases a hold and grants the next waiters. ARGV per item: attempt, last token used. Result: 1 it was held · 2 ended before ·
 * 0 neither; then, here and below, the score at which `further` must continue, if it must.
 */
export const release: Script = script(
  'release',
  2,
  `
local function item(h, q, d, id, last)
  local S = load(h, q, d)
  look(S)
  if not holds(S, id) then
    keep(S)
    return answer(S, ended(S, id) and 2 or 0)
  end
  leave(S, id, tonumber(last))
  remember(S, id)
  if S.line then advance(S) end
  save(S, 'x', S.x)
  return answer(S, 1)
end`,
  fastRelease,
)

/**
 * Renews holds. ARGV per item: attempt, and one of: 0 = only check · `<ttl µs>` to last for that long at least · `<ttl µs> <order>` for that long
 * exactly, unless this order or a greater one of the attempt came before: then at least. Result: 1, or 0 when the attempt does not
 * hold the lock.
 */
export const renew: Script = script(
  'renew',
  2,
  `
local function isNewest(S, id, order)
  for _, known in ipairs({ 'n', 'n:' .. id }) do
    local attempt, newest = string.match(call('HGET', S.h, known) or '', '^(%S+) (%d+)$')
    if attempt == id and tonumber(newest) >= tonumber(order) then return false end
  end
  call('HSET', S.h, S.m == 'x' and 'n' or 'n:' .. id, id .. ' ' .. order)
  return true
end

local function item(h, q, d, id, term)
  local S = load(h, q, d)
  look(S)
  if not holds(S, id) then
    keep(S)
    return 0
  end
  if term == '0' then keep(S) return 1 end
  local ttl, order = string.match(term, '^(%d+) ?(%d*)$')
  local e = S.now + ttl
  if order ~= '' and isNewest(S, id, order) then
    if S.m == 'x' then
      S.e = e
    else
      call('ZADD', d, e, id)
      S.e = math.min(S.e, e)
    end
  else
    prolong(S, id, e)
  end
  save(S)
  return 1
end`,
  fastRenew,
)

/**
 * Ends an attempt wherever it is. ARGV per item: attempt, µs for which a late request of it is refused (0: none can be in
 * flight). Result: 1 it held or waited, else 0.
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
  return answer(S, was)
end`,
)

/** Exclusive to shared in one step. ARGV per item: attempt, last token used. Result: the present token, '0' when held in neither way. */
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
    return answer(S, token)
  end
  keep(S)
  return '0'
end`,
)

/**
 * Ends every hold and notifies the holders. ARGV per item: an id of this order, by which a second copy is recognised: the copy must
 * not end the hold of the next holder. Result: how many holds it ended that were not overdue; for a second copy 1 if there were any.
 */
export const force: Script = script(
  'force',
  1,
  `
local function item(h, q, d, order)
  local S = load(h, q, d)
  if ended(S, order) then return answer(S, 1) end
  if ended(S, order .. '-') then return answer(S, 0) end
  while S.m ~= '-' and S.e <= S.now do overdue(S) end
  local ids = S.m == 'x' and { S.o } or S.m == '-' and {} or call('ZRANGE', d, 0, -1)
  for _, id in ipairs(ids) do
    local _, _, _, channel = hold(S, id)
    -- Also on a replica that was down at the grant: it may be up now.
    if channel and #channel > 2 then tell(string.gsub(channel, '^-', ''), 'x ' .. id) end
    leave(S, id)
  end
  advance(S)
  remember(S, #ids > 0 and order or order .. '-', S.now + ${orderKnown})
  if S.known then
    save(S, 'x', S.x)
  else
    call('HSET', h, 'x', S.x)
    call('PEXPIRE', h, ARGV[4])
  end
  return answer(S, #ids)
end`,
)

/**
 * Continues granting where another run stopped. ARGV per item: the score that run replied with. Result: the next score, or '' when no
 * grantable waiter is left.
 */
export const further: Script = script(
  'further',
  1,
  `
local function item(h, q, d, from)
  local S = load(h, q, d)
  overdue(S)
  if S.m ~= 'x' then advance(S, nil, nil, from) end
  keep(S)
  return S.further or ''
end`,
)
