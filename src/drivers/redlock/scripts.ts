/**
 * Long because all scripts share one state, told here once.
 *
 * What one of the servers does. It knows nothing of the others: it gives its vote to one attempt at a time, and never to a
 * ballot that is not greater than every ballot it has voted for.
 *
 * State of a lock, one hash: `b` the greatest ballot voted for, with the reserve of those who used it · `t` the newest time seen ·
 * `z` what was added to the server's clock because it went back · `e` the attempts that ended last ·
 * `v:<attempt>` a vote that is out: `kind deadline ballot since round by note` · `w:<attempt>` somebody who was refused and asks again:
 * `kind due since channel by note`. All times are the server's, in microseconds.
 *
 * An attempt asks in rounds, because a minority of votes is given back at once: what has ended is a round of an attempt,
 * so that a late request of a round that was given up finds it ended.
 */
import { tokenReserve } from '../../core/token.js'

export interface Script {
  readonly name: string
  readonly text: string
}

const state = `
local call = redis.call
local h = KEYS[1]
local tm = call('TIME')
local wall = tm[1] * 1000000 + tm[2]
local reserve = ${tokenReserve}
local function num(n) return string.format('%d', n) end
local b, seen, z, ended, kept, votes, waits = 0, 0, 0, '', '', {}, {}
local all = call('HGETALL', h)
for i = 1, #all, 2 do
  local field, value = all[i], all[i + 1]
  if field == 'b' then b = tonumber(value)
  elseif field == 't' then seen = tonumber(value)
  elseif field == 'z' then z = tonumber(value)
  elseif field == 'e' then ended = value
  elseif field == 'r' then kept = value
  elseif string.sub(field, 1, 2) == 'w:' then
    local kind, due, since, channel, by, note = string.match(value, '^(%a) (%d+) (%d+) (%S+) (%S+) (.*)$')
    waits[string.sub(field, 3)] = { kind = kind, due = tonumber(due), since = tonumber(since), channel = channel, by = by, note = note }
  else
    local kind, due, ballot, since, round, by, note = string.match(value, '^(%a) (%d+) (%d+) (%d+) (%d+) (%S+) (.*)$')
    votes[string.sub(field, 3)] = { kind = kind, due = tonumber(due), ballot = tonumber(ballot), since = tonumber(since),
      round = round, by = by, note = note }
  end
end
local now = wall + z
if now < seen then
  if seen - now > 500000 then z = z + seen - now end
  now = seen
end

-- A vote that ended without being given back may have used all of its reserve.
local function finish(id, last)
  local v = votes[id]
  votes[id] = nil
  call('HDEL', h, 'v:' .. id)
  local top = v.kind == 'x' and v.ballot + reserve or v.ballot
  b = math.max(b, last and math.min(math.max(last, v.ballot), top) or top)
end

local function put(id, v)
  votes[id] = v
  call('HSET', h, 'v:' .. id, table.concat({ v.kind, num(v.due), num(v.ballot), num(v.since), v.round, v.by, v.note }, ' '))
end

local function leaveLine(id)
  if waits[id] then
    waits[id] = nil
    call('HDEL', h, 'w:' .. id)
  end
end

for id, v in pairs(votes) do
  if v.due <= now then finish(id) end
end
for id, w in pairs(waits) do
  if w.due <= now then leaveLine(id) end
end

local function eldest()
  local first
  for id, w in pairs(waits) do
    if not first or w.since < waits[first].since then first = id end
  end
  return first
end

local function wake()
  for _ = 1, 8 do
    local id = eldest()
    if not id then return end
    local heard = redis.pcall('PUBLISH', waits[id].channel, id)
    if type(heard) == 'number' and heard > 0 then
      call('HSET', h, 'r', id .. ' ' .. num(now + 50000))
      return
    end
    if type(heard) ~= 'number' then return end
    leaveLine(id)
  end
end

local function save(retention)
  call('HSET', h, 'b', num(b), 't', num(now), 'z', num(z), 'e', ended)
  if next(votes) then call('PERSIST', h) else call('PEXPIRE', h, retention) end
end

local function remember(round)
  local kept, n = round .. ' ', 1
  for one in string.gmatch(ended, '%S+') do
    if one ~= round and n < 8 then kept, n = kept .. one .. ' ', n + 1 end
  end
  ended = kept
end
local function over(round) return string.find(' ' .. ended, ' ' .. round .. ' ', 1, true) end
`

/**
 * KEYS: the lock, the marker of the server. ARGV: 1 boot id the client knows the server by · 2 attempt · 3 round · 4 `x` or `s` · 5 ttl µs ·
 * 6 ballot · 7 `1`: it holds a majority and wants this vote too · 8 ms a free lock is remembered · 9 by · 10 channel to be woken by, `-` = does not
 * wait · 11 µs until a waiter that is not heard of counts as gone · 12 note.
 * Result: a letter, the greatest ballot, the time; then what belongs to the letter:
 * `y` ballot: the vote is yours, for that ballot · `w` as y, but there have been greater ballots since · `b` the server has
 * another marker · `o` this round has ended · `h` a greater ballot is needed · `n` place in line, attempt, kind, ballot, µs
 * held, µs left, by, note: somebody else has the vote · `r` place in line: the
 * vote is kept for who was woken.
 */
export const vote: Script = {
  name: 'vote',
  text: `#!lua
${state}
if call('GET', KEYS[2]) ~= ARGV[1] then return { 'b', num(b), num(now) } end
local id, round, kind, ttl, ballot = ARGV[2], ARGV[2] .. ':' .. ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
if over(round) then return { 'o', num(b), num(now) } end
local mine = votes[id]
if mine then
  mine.due, mine.round = now + ttl, ARGV[3]
  put(id, mine)
  save(ARGV[8])
  return { 'y', num(b), num(now), num(mine.ballot) }
end
local function stand()
  if ARGV[10] == '-' then return 0 end
  local w = waits[id] or { kind = kind, since = now, channel = ARGV[10], by = ARGV[9], note = ARGV[12] }
  waits[id] = w
  w.due = now + tonumber(ARGV[11])
  call('HSET', h, 'w:' .. id, table.concat({ w.kind, num(w.due), num(w.since), w.channel, w.by, w.note }, ' '))
  save(ARGV[8])
  local place = 1
  for other, o in pairs(waits) do
    if other ~= id and o.since < w.since then place = place + 1 end
  end
  return place
end
for other, v in pairs(votes) do
  if kind == 'x' or v.kind == 'x' then
    return { 'n', num(b), num(now), stand(), other, v.kind, num(v.ballot), num(now - v.since), num(v.due - now), v.by, v.note }
  end
end
local whose, till = string.match(kept, '^(%S+) (%d+)$')
if whose and whose ~= id and tonumber(till) > now and waits[whose] and ARGV[7] ~= '1' then
  return { 'r', num(b), num(now), stand() }
end
-- A reader does not overtake a writer who waits, else writers would starve.
local first = eldest()
if kind == 's' and ARGV[7] ~= '1' and first and first ~= id and waits[first].kind == 'x' and next(votes) then
  local other, v = next(votes)
  return { 'n', num(b), num(now), stand(), other, v.kind, num(v.ballot), num(now - v.since), num(v.due - now), v.by, v.note }
end
local answer = 'y'
if ARGV[7] == '1' then
  if ballot < b then answer = 'w' end
elseif ballot <= b or ballot < now - 1000000 then
  -- Not the floor itself: that has moved on when the next round comes.
  return { 'h', num(math.max(b, now)), num(now) }
end
b = math.max(b, ballot)
put(id, { kind = kind, due = now + ttl, ballot = ballot, since = now, round = ARGV[3], by = ARGV[9], note = ARGV[12] })
leaveLine(id)
save(ARGV[8])
return { answer, num(b), num(now), num(ballot) }
`,
}

/**
 * KEYS: the lock, the marker. ARGV: 1 boot id · 2 attempt · 3 ttl µs · 4 ms a free lock is remembered.
 * Result: `y` proven again · `f` the vote is free, or with readers · `n` somebody else has it · `b` another marker; then ballot and time.
 */
export const renew: Script = {
  name: 'renew',
  text: `#!lua flags=allow-oom
${state}
if call('GET', KEYS[2]) ~= ARGV[1] then return { 'b', num(b), num(now) } end
local mine = votes[ARGV[2]]
if mine then
  mine.due = now + tonumber(ARGV[3])
  put(ARGV[2], mine)
  save(ARGV[4])
  return { 'y', num(b), num(now) }
end
for _, v in pairs(votes) do
  if v.kind == 'x' then return { 'n', num(b), num(now) } end
end
return { 'f', num(b), num(now) }
`,
}

/**
 * KEYS: the lock. ARGV: 1 attempt · 2 round · 3 the last token used · 4 ms a free lock is remembered · 5 `1`: it does not wait any more.
 * Remembers the round as ended, whatever it was.
 * Result: `y` the vote was out · `o` it had been given back before · `f` neither; then ballot and time.
 */
export const release: Script = {
  name: 'release',
  text: `#!lua flags=allow-oom
${state}
local id, round = ARGV[1], ARGV[1] .. ':' .. ARGV[2]
local answer = over(round) and 'o' or 'f'
if ARGV[5] == '1' then leaveLine(id) end
if votes[id] then
  finish(id, tonumber(ARGV[3]))
  answer = 'y'
  wake()
end
remember(round)
save(ARGV[4])
return { answer, num(b), num(now) }
`,
}

/**
 * KEYS: the lock. Result: ballot, time, then of each vote and each who waits: attempt, kind, ballot (0: waits), µs held or waited, µs left, by, note.
 */
export const inspect: Script = {
  name: 'inspect',
  text: `#!lua flags=allow-oom
${state}
local out = { num(b), num(now) }
for id, v in pairs(votes) do
  for _, part in ipairs({ id, v.kind, num(v.ballot), num(now - v.since), num(v.due - now), v.by, v.note }) do
    out[#out + 1] = part
  end
end
for id, w in pairs(waits) do
  for _, part in ipairs({ id, w.kind, '0', num(now - w.since), num(w.due - now), w.by, w.note }) do
    out[#out + 1] = part
  end
end
return out
`,
}

/**
 * KEYS: the lock. ARGV: 1 attempt · 2 the last token used · 3 ms a free lock is remembered. Turns an exclusive vote into a shared one.
 * Result: `y` it is one now · `f` the vote is not out; then ballot and time.
 */
export const downgrade: Script = {
  name: 'downgrade',
  text: `#!lua flags=allow-oom
${state}
local v = votes[ARGV[1]]
if not v then return { 'f', num(b), num(now) } end
if v.kind == 'x' then
  local last = math.min(math.max(tonumber(ARGV[2]), v.ballot), v.ballot + reserve)
  b = math.max(b, last)
  v.kind, v.ballot = 's', last
  put(ARGV[1], v)
  wake()
  save(ARGV[3])
end
return { 'y', num(b), num(now) }
`,
}

/** KEYS: the lock. ARGV: 1 ms a free lock is remembered. Takes back every vote. Result: how many. */
export const force: Script = {
  name: 'force',
  text: `#!lua flags=allow-oom
${state}
local ids = {}
for id in pairs(votes) do ids[#ids + 1] = id end
for _, id in ipairs(ids) do
  remember(id .. ':' .. votes[id].round)
  finish(id)
end
if #ids > 0 then
  wake()
  save(ARGV[1])
end
return #ids
`,
}
