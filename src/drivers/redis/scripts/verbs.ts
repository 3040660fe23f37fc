/**
 * One script per verb. Each takes any number of items, so that what one tick asks for is one command; each item is
 * idempotent by its attempt id, and one that fails answers `e <error>` without harm to the others. What is common to
 * all stands in `state.ts`, `line.ts` and `frame.ts`.
 */
import { fastAcquire, fastRelease, fastRenew, frame } from './frame.js'
import { line } from './line.js'
import { state } from './state.js'

/** A script and how its items look. */
export interface Script {
  readonly name: string
  /** Lua text. */
  readonly text: string
  /** Arguments of one item. */
  readonly args: number
}

/** `allow-oom`: giving back, proving again and looking must work on a full server; only taking more may be refused. */
function script(name: string, args: number, body: string, fast = '', flags = ' flags=allow-oom'): Script {
  return { name, args, text: `#!lua${flags}\n${frame(args, fast, `${state}${line}${body}`)}` }
}

/**
 * Takes the lock, or a place in line, or proves a place. ARGV per item: attempt, mode x|s|p, ttl µs,
 * `<take> <limit> <1 = stand in line> <request number> <µs to be thought alive> <claim µs>`, note.
 * Result: `<token> <1 = others wait>` granted · `o` ended before · `l <limit>` another limit is in use · a list: place
 * in line (0 = none taken), µs until it is worth asking again, 1 = the holder can push, 1 = barred, then of one holder,
 * if there is any: attempt, mode, take, limit, token, µs held, µs left, by, note.
 */
export const acquire: Script = script(
  'acquire',
  5,
  `
flips = true
local function enqueue(S, id, kind, take, of, ttl, n, alive, claim, note)
  local w = S.lined and waiter(S, id)
  if not w then
    local last = call('ZREVRANGE', S.q, 0, 0, 'WITHSCORES')[2]
    call('ZADD', S.q, 'NX', math.max(wall, (tonumber(last) or 0) + 1), id)
    if kind == 'p' then
      call('HINCRBY', S.h, 'pw', 1)
      call('HSET', S.h, 'pl', of)
    end
  end
  stand(S, id, { n = n, seen = S.now, kind = kind, take = take, of = of, ttl = tonumber(ttl), claim = tonumber(claim),
    channel = chan, since = w and w.since or num(S.now), who = by, note = note }, S.now + alive)
  if not S.line then
    S.line = true
    local _, _, _, channel = hold(S, S.o)
    if S.m == 'x' and channel ~= '-' then tell(channel, 'c ' .. S.o) end
  end
  call('PEXPIRE', S.q, '3600000')
  return call('ZRANK', S.q, id) + 1
end

local function limit(S)
  if S.m == 'p' then
    permits(S)
    return S.of
  end
  local v = S.line and call('HMGET', S.h, 'pw', 'pl')
  return v and tonumber(v[1] or 0) > 0 and tonumber(v[2])
end

local function item(h, q, d, id, kind, ttl, rest, note)
  local take, of, wait, n, alive, claim = string.match(rest, '^(%d+) (%d+) (%d) (%d+) (%d+) (%d+)$')
  local S = load(h, q, d)
  if ended(S, id) then return 'o' end
  take, of = tonumber(take), tonumber(of)
  local changed = S.m ~= '-' and overdue(S)
  local till = barred()
  if till == 0 and holds(S, id) then
    if S.m == 'x' then S.e = S.now + ttl else call('ZADD', d, S.now + ttl, id) end
    save(S)
    return num((hold(S, id))) .. (S.line and ' 1' or ' 0')
  end
  local lined = S.line and call('ZSCORE', q, id)
  if kind == 'p' and not lined then
    local other = limit(S)
    if other and other ~= of then return 'l ' .. num(other) end
  end
  if till == 0 and S.m ~= 'x' then
    advance(S, id, ttl)
    if not S.mine and not lined and S.open and admits(S, kind, take, of) then
      S.mine = grant(S, id, kind, take, of, ttl, chan, by, note)
      S.more = S.line
    end
    if S.mine then
      save(S)
      return num(S.mine) .. (S.more and ' 1' or ' 0')
    end
  end
  local place = wait == '1' and enqueue(S, id, kind, take, of, ttl, n, alive, claim, note) or 0
  if place > 0 or changed or S.line ~= S.lined then save(S) end
  local left = math.max(0, till - wall, (S.m == '-' and (S.due or 0) or S.e) - S.now)
  local first = S.m == 'x' and S.o or S.m ~= '-' and call('ZRANGE', d, 0, 0)[1]
  if not first then return { place, left, 1, till > 0 and 1 or 0 } end
  if S.m == 'p' then permits(S) end
  local token, taken, since, channel, who, text = hold(S, first)
  return { place, left, channel == '-' and 0 or 1, till > 0 and 1 or 0,
    first, S.m, taken, S.of or 0, token, S.now - since, S.e - S.now, who, text }
end`,
  fastAcquire,
  '',
)

/** Gives a hold back and lets in who is next. ARGV per item: attempt, last token used. Result: 1 it was held · 2 ended before · 0 neither. */
export const release: Script = script(
  'release',
  2,
  `
local function item(h, q, d, id, last)
  local S = load(h, q, d)
  local changed = overdue(S)
  if not holds(S, id) then
    if changed then
      advance(S)
      save(S)
    end
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
  local changed = overdue(S)
  local held = holds(S, id)
  if held and S.m == 'x' then S.e = S.now + ttl elseif held then call('ZADD', d, S.now + ttl, id) end
  if not held and changed then advance(S) end
  if changed or held and S.m == 'x' then save(S) end
  return held and 1 or 0
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
  overdue(S)
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
  save(S, 'x', S.x)
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
  local changed = overdue(S)
  if S.m == 's' and holds(S, id) then return num((hold(S, id))) end
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
  if changed then
    advance(S)
    save(S)
  end
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
    if channel and channel ~= '-' then tell(channel, 'x ' .. id) end
    leave(S, id)
  end
  advance(S)
  if S.known then save(S) end
  return #ids
end`,
)
