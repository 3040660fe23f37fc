/** The script for acquiring. The other verbs are in `verbs.ts`. */
import { livenessWindow } from '../../kit/push-schedule.js'
import { type Script, script } from './batch-script.js'
import { fastAcquire } from './fast-paths.js'

/**
 * Takes the lock, or enqueues the claim, or proves its queue entry. ARGV per item: attempt, mode x|s|p, ttl µs,
 * `<take> <limit> <1 = enqueue> <µs to be considered alive> <score at which to begin in the queue, 0>`, note.
 * Result: `<token> <1 = others wait>` granted · `o` ended before · `l <limit>` another limit is in use · a list: queue position (0 =
 * not queued), µs until a retry is worthwhile, 1 = the holder can push and you would receive it, until when barred (0: not barred,
 * 1: meet the server again), the score at which to continue at once (empty: nowhere), then of one holder, if there is any: attempt,
 * mode, take, limit, token, µs held, µs left, by, note.
 */
export const acquire: Script = script(
  'acquire',
  5,
  `
flips = true
local function enqueue(S, id, kind, take, of, ttl, alive, note)
  local w = S.lined and waiter(S, id)
  if not w then
    local last = call('ZREVRANGE', S.q, 0, 0, 'WITHSCORES')[2]
    call('ZADD', S.q, 'NX', math.max(wall, (tonumber(last) or 0) + 1), id)
    if kind == 'p' then
      call('HINCRBY', S.h, 'pw', 1)
      call('HSET', S.h, 'pl', of)
    end
  end
  if isDeaf() then alive = math.min(alive, ${livenessWindow.polling * 1000}) end
  stand(S, id, { kind = kind, take = take, of = of, ttl = tonumber(ttl), channel = deaf and '-' .. chan or chan,
    since = w and w.since or num(S.now), who = by, note = note }, S.now + alive)
  -- A holder that may keep the lock cached (core/caching.ts) is told again at each request: the first message may be lost.
  if not S.line or S.m == 'x' and string.sub(S.o, -1) == 'z' then
    S.line = true
    local _, _, _, channel = hold(S, S.o)
    if S.m == 'x' and not none(channel) then tell(channel, 'c ' .. S.o) end
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
  local take, of, wait, alive, from = string.match(rest, '^(%d+) (%d+) (%d) (%d+) (%d+)$')
  local S = load(h, q, d)
  take, of = tonumber(take), tonumber(of)
  overdue(S)
  local till, met = barred()
  if till == 0 and S.m ~= 'x' then advance(S, id, ttl, from ~= '0' and from) end
  keep(S)
  if S.mine then return answer(S, num(S.mine) .. (S.line and ' 1' or ' 0')) end
  if ended(S, id) then return 'o' end
  if till == 0 and holds(S, id) then
    if S.m == 'x' then
      -- The caller may be another process than the one that was granted: from now on, notifications go to the caller.
      local _, _, since, _, _, text = hold(S, id)
      S.r = since .. ' ' .. chan .. ' ' .. by .. ' ' .. text
    end
    prolong(S, id, S.now + ttl)
    if S.m == 'x' then save(S) end
    return num((hold(S, id))) .. (S.line and ' 1' or ' 0')
  end
  local lined = S.line and call('ZSCORE', q, id)
  if kind == 'p' and not lined then
    local other = limit(S)
    if other and other ~= of then return 'l ' .. num(other) end
  end
  if S.open and not lined and admits(S, kind, take, of) then
    local token = grant(S, id, kind, take, of, ttl, chan, by, note)
    save(S)
    return num(token) .. (S.line and ' 1' or ' 0')
  end
  local place = (wait == '1' or lined) and enqueue(S, id, kind, take, of, ttl, alive, note) or 0
  if place > 0 then save(S) end
  local ends = S.m == '-' and (S.due or 0) or S.due and math.min(S.due, S.e) or S.e
  local left = math.max(0, till - wall, ends - S.now)
  local first = S.m == 'x' and S.o or S.m ~= '-' and call('ZRANGE', d, 0, 0)[1]
  till = met and 1 or till
  if not first then return { place, left, deaf and 0 or 1, till, S.further or '' } end
  if S.m == 'p' then permits(S) end
  local token, taken, since, channel, who, text = hold(S, first)
  return { place, left, (deaf or channel == '-!') and 0 or 1, till, S.further or '',
    first, S.m, taken, S.of or 0, token, S.now - since, S.e - S.now, who, text }
end`,
  fastAcquire,
  // A Cluster's node remembers in another slot when it may have lost data: see `slot-marker.ts`.
  ' flags=allow-cross-slot-keys',
)
