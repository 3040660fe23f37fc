/**
 * The state of a lock on one server, and the code with which every script begins and ends.
 *
 * The state is one text in one string key: reading and writing it is most of the cost of an uncontended vote, and a string is read by
 * one command and written, with or without a time to live, by another.
 *
 * ```
 * <b> <t> <z> <round ended last> <one before> …
 * v <attempt> <kind x|s> <deadline> <ballot> <since> <round>[:<order>] <by> <note>  a vote that was given
 * w <attempt> <kind> <due> <since> <channel> <by> <note>                     a waiter: it was refused and retries
 * q <attempt> <kind> <due> <since> <channel> <by> <note>                     the same; it has since had the vote and released it without getting the lock
 * r <attempt> <until>                                                        the vote is kept for this woken waiter
 * ```
 * `b` the greatest ballot voted for, including the reserve where it was used · `t` the newest time seen · `z` the amount added to the
 * server's clock because it went back · `order` the number of the newest renewal that may have shortened the vote. All times are the
 * server's, in microseconds.
 *
 * An attempt asks in rounds, because a minority of votes is released at once: it is a round of an attempt that ends, so that a late
 * request of an abandoned round finds the round ended. The key has a time to live only while no vote is given, and outlives `b`.
 *
 * A waiter stays queued until it holds the lock or leaves, even while it has the vote of a round that may fail: otherwise a single
 * attempt could get in between. When it releases that vote it goes to the end of the queue. Several waiters with split votes would be
 * woken again and again by the same servers, and for ever by each other: so a waiter that releases its votes without getting the lock wakes no waiter that has done
 * the same since its last request (`q`).
 *
 * A verb changes the tables; its changes are written once, at its end.
 */
import { tokenReserve } from '../../core/token.js'

export interface Script {
  readonly name: string
  readonly text: string
}

/** The keys, arguments and extra code of a script. */
interface ScriptParts {
  /** KEYS[2] is the marker of the server, and ARGV[1] the marker the client expects: the reply to another one is `b`. */
  readonly marked?: boolean
  /** The index of the argument with how long a lock without votes is remembered, in ms; absent: the script changes nothing. */
  readonly retention?: number
  /** Lua that returns, or does nothing. It may use `stored`, `marker` and `wall`. */
  readonly shortCut?: string
  readonly flags?: string
}

/** @param verb Lua that returns the reply; `id` is not set yet there, and all of `state` is available */
export function script(name: string, verb: string, places: ScriptParts): Script {
  const { marked = false, retention, shortCut = '', flags = '' } = places
  const load = marked
    ? `local stored, marker = unpack(call('MGET', h, KEYS[2]))
-- Something else of that name is an error, not a free lock.
if not stored then stored = call('GET', h) end`
    : `local stored = call('GET', h)`
  const text = `#!lua${flags}
local call = redis.call
local h = KEYS[1]
local tm = call('TIME')
local wall = tm[1] * 1000000 + tm[2]
-- A lock must not be forgotten before the clock has passed its ballots: it is then all that is left of them.
local function lasting(top, retention)
  return string.format('%d', retention + math.max(0, math.ceil((top - wall) / 1000)))
end
${load}
stored = stored or '0 0 0'
${shortCut}
${state}
${marked ? `if marker ~= ARGV[1] then return { 'b', num(b), num(now) } end` : ''}
local function verb()
${verb}
end
local reply = verb()
${retention === undefined ? '' : `if changed then save(ARGV[${retention}]) end`}
return reply
`
  return { name, text }
}

const state = `
local function num(n) return string.format('%d', n) end
local b, seen, z, ended = string.match(stored, '^(%d+) (%d+) (%d+)([^\\n]*)')
b, seen, z = tonumber(b), tonumber(seen), tonumber(z)
local votes, waits, kept, changed = {}, {}, nil, false
for letter, id, rest in string.gmatch(stored, '\\n(%a) (%S+) ([^\\n]*)') do
  if letter == 'v' then
    local kind, due, ballot, since, round, order, by, note = string.match(rest, '^(%a) (%d+) (%d+) (%d+) (%d+):?(%d*) (%S+) (.*)$')
    votes[id] = { kind = kind, due = tonumber(due), ballot = tonumber(ballot), since = tonumber(since), round = round, order = order, by = by, note = note }
  elseif letter == 'r' then
    kept = { id = id, till = tonumber(rest) }
  else
    local kind, due, since, channel, by, note = string.match(rest, '^(%a) (%d+) (%d+) (%S+) (%S+) (.*)$')
    waits[id] = { quiet = letter == 'q', kind = kind, due = tonumber(due), since = tonumber(since), channel = channel, by = by, note = note }
  end
end
local now = wall + z
if now < seen then
  if seen - now > 500000 then z = z + seen - now end
  now = seen
end
if kept and kept.till <= now then kept = nil end

local function save(retention)
  local lines = { num(b) .. ' ' .. num(now) .. ' ' .. num(z) .. ended }
  for id, v in pairs(votes) do
    lines[#lines + 1] = table.concat({ 'v', id, v.kind, num(v.due), num(v.ballot), num(v.since), v.order == '' and v.round or v.round .. ':' .. v.order, v.by, v.note }, ' ')
  end
  for id, w in pairs(waits) do
    lines[#lines + 1] = table.concat({ w.quiet and 'q' or 'w', id, w.kind, num(w.due), num(w.since), w.channel, w.by, w.note }, ' ')
  end
  if kept then lines[#lines + 1] = 'r ' .. kept.id .. ' ' .. num(kept.till) end
  local text = table.concat(lines, '\\n')
  if next(votes) then call('SET', h, text) else call('SET', h, text, 'PX', lasting(b, retention)) end
end

-- A vote that expired without a release may have used its whole token reserve. Its owner no longer waits.
local function finish(id, last)
  local v = votes[id]
  votes[id], waits[id], changed = nil, nil, true
  local top = v.kind == 'x' and v.ballot + ${tokenReserve} or v.ballot
  b = math.max(b, last and math.min(math.max(last, v.ballot), top) or top)
end

local function put(id, v) votes[id], changed = v, true end

-- Is this renewal newer than every numbered one that the vote has seen? Its number is kept then.
local function isNewest(v, order)
  if order == '' or v.order ~= '' and tonumber(v.order) >= tonumber(order) then return false end
  v.order = order
  return true
end

local function leaveLine(id)
  if waits[id] then waits[id], changed = nil, true end
end

for id, v in pairs(votes) do
  if v.due <= now then finish(id) end
end
for id, w in pairs(waits) do
  if w.due <= now then leaveLine(id) end
end

-- Of the requests without a vote.
local function eldest(loud)
  local first
  for id, w in pairs(waits) do
    if not votes[id] and not (loud and w.quiet) then
      local f = waits[first]
      if not f or w.since < f.since or w.since == f.since and id < first then first = id end
    end
  end
  return first
end

-- Notifies the oldest waiter that it may ask, and removes waiters without a subscriber from the queue. Second result: is it known to have been notified?
local function summon(loud)
  for _ = 1, 8 do
    local id = eldest(loud)
    if not id then return end
    local heard = redis.pcall('PUBLISH', waits[id].channel, id)
    if heard ~= 0 then return id, type(heard) == 'number' end
    leaveLine(id)
  end
end

local function wake(loud)
  local id, heard = summon(loud)
  if heard then kept, changed = { id = id, till = now + 50000 }, true end
end

-- The eight newest.
local function remember(round)
  local text, n = ' ' .. round, 1
  for one in string.gmatch(ended, '%S+') do
    if one ~= round and n < 8 then text, n = text .. ' ' .. one, n + 1 end
  end
  ended, changed = text, true
end
local function over(round) return string.find(ended .. ' ', ' ' .. round .. ' ', 1, true) end
`
