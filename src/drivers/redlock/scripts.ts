/**
 * The scripts that run on each server. A server knows nothing of the others: it gives its vote to one attempt at a time, and only to a
 * ballot greater than every ballot it has voted for. Its state of a lock is described in `state.ts`.
 */
import { tokenReserve } from '../../core/token.js'
import { fastRelease, fastVote } from './fast-paths.js'
import { type Script, script } from './state.js'

/** How far a ballot may be behind the clock of a server that has forgotten the lock, in µs. */
export const retentionPassed = 1_000_000

/**
 * A server whose clock is past this, in µs (2112), votes for no lock it has forgotten: ballots that begin below it stay exact in a
 * double, however many are counted from there.
 */
export const latestClock: number = 2 ** 52

/**
 * A server that has forgotten the lock (`b` 0) takes its clock for the greatest ballot it has voted for, once: it keeps that as
 * `b`, and from then on only `b` counts. So a ballot need not be newer than the clock of a server that has named one. The clock is
 * not behind the forgotten ballots, because a lock is remembered until the clock has passed `b`.
 *
 * KEYS: the lock, the marker of the server. ARGV: 1 boot id by which the client knows the server · 2 attempt · 3 round · 4 `x` or `s` ·
 * 5 `<ttl µs>`, or `<ttl µs> <order>` as for `renew` · 6 ballot · 7 `1`: the attempt holds a majority and wants this vote, too · 8 ms a free
 * lock is remembered · 9 by ·
 * 10 channel for the wake-up, `-` = does not wait, `-?` = waits, but cannot receive messages · 11 µs without a request after which a
 * waiter counts as gone · 12 note.
 * Result: a letter, the greatest ballot, the time; then the parts that belong to the letter:
 * `y` ballot: the vote is yours, for that ballot · `w` as y, but there have been greater ballots since · `b` the server has
 * another marker · `o` this round has ended · `h` a greater ballot is needed · `c` no ballot is as great as this clock ·
 * `n` queue position, attempt, kind, ballot, µs held, µs left, by, note: another attempt has the vote · `r` queue position: the vote is
 * kept for a waiter that was woken, or, from an attempt that does not wait, for a waiter.
 */
export const vote: Script = script(
  'vote',
  `local id, round, kind, ballot = ARGV[2], ARGV[2] .. ':' .. ARGV[3], ARGV[4], tonumber(ARGV[6])
local ttl, order = string.match(ARGV[5], '^(%d+) ?(%d*)$')
if over(round) then return { 'o', num(b), num(now) } end
local mine = votes[id]
if mine then
  -- If rounds arrive out of order, report the newest: releasing an older one must not end it.
  -- A copy may come late: it shortens nothing.
  mine.due, mine.round = math.max(mine.due, now + ttl), num(math.max(mine.round, ARGV[3]))
  isNewest(mine, order)
  put(id, mine)
  return { 'y', num(b), num(now), num(mine.ballot) }
end
local function stand()
  if string.sub(ARGV[10], 1, 1) == '-' then return 0 end
  local w = waits[id] or { kind = kind, since = now, channel = ARGV[10], by = ARGV[9], note = ARGV[12] }
  waits[id] = w
  w.due, w.quiet, changed = now + tonumber(ARGV[11]), false, true
  local place = 1
  for other, o in pairs(waits) do
    if other ~= id and not votes[other] and o.since < w.since then place = place + 1 end
  end
  return place
end
for other, v in pairs(votes) do
  if kind == 'x' or v.kind == 'x' then
    return { 'n', num(b), num(now), stand(), other, v.kind, num(v.ballot), num(now - v.since), num(v.due - now), v.by, v.note }
  end
end
if kept and kept.id ~= id and waits[kept.id] and ARGV[7] ~= '1' then
  return { 'r', num(b), num(now), stand() }
end
local first = eldest()
-- Nor does a single attempt overtake a waiter, however late that waiter polls. It is notified once more.
if ARGV[10] == '-' and ARGV[7] ~= '1' and first and first ~= id and (kind == 'x' or waits[first].kind == 'x') then
  if summon() then return { 'r', num(b), num(now), 0 } end
  first = eldest()
end
-- A reader does not overtake a waiting writer, else writers would starve.
if kind == 's' and ARGV[7] ~= '1' and first and first ~= id and waits[first].kind == 'x' and next(votes) then
  local other, v = next(votes)
  return { 'n', num(b), num(now), stand(), other, v.kind, num(v.ballot), num(now - v.since), num(v.due - now), v.by, v.note }
end
local floor = b == 0 and now - ${retentionPassed} or b
if ARGV[7] ~= '1' and (ballot <= b or ballot < floor) then
  if b == 0 then
    if now > ${latestClock} then return { 'c', num(b), num(now) } end
    b, changed = now, true
  end
  return { 'h', num(b), num(now) }
end
local answer = ballot < b and 'w' or 'y'
b = math.max(floor, ballot)
put(id, { kind = kind, due = now + ttl, ballot = ballot, since = now, round = ARGV[3], order = order, by = ARGV[9], note = ARGV[12] })
if kept and kept.id == id then kept = nil end
return { answer, num(b), num(now), num(ballot) }`,
  { marked: true, retention: 8, shortCut: fastVote },
)

/**
 * KEYS: the lock, the marker. ARGV: 1 boot id · 2 attempt · 3 `<ttl µs>` for that long at least, `<ttl µs> <order>` for that long exactly,
 * unless the attempt has sent this order or a greater one before: then at least · 4 ms a free lock is remembered.
 * Result: `y` renewed · `f` the vote is free, or with readers · `n` another attempt has it · `b` another marker; then ballot and time.
 */
export const renew: Script = script(
  'renew',
  `local mine = votes[ARGV[2]]
if mine then
  local ttl, order = string.match(ARGV[3], '^(%d+) ?(%d*)$')
  mine.due = math.max(isNewest(mine, order) and 0 or mine.due, now + ttl)
  put(ARGV[2], mine)
  return { 'y', num(b), num(now) }
end
for _, v in pairs(votes) do
  if v.kind == 'x' then return { 'n', num(b), num(now) } end
end
return { 'f', num(b), num(now) }`,
  { marked: true, retention: 4, flags: ' flags=allow-oom' },
)

/**
 * KEYS: the lock. ARGV: 1 attempt · 2 round · 3 the last token used · 4 ms a free lock is remembered · 5 `1`: the attempt no longer waits,
 * else only this round and earlier ones have ended. Remembers the round as ended in any case. The release of a round can arrive after
 * the vote of the next: resent after a reconnect, or as full text, because the server did not know the script.
 * Result: `y` the attempt had the vote · `o` it had been released before · `f` neither, or a later round has it; then ballot and time.
 */
export const release: Script = script(
  'release',
  `local id, round = ARGV[1], ARGV[1] .. ':' .. ARGV[2]
local answer = over(round) and 'o' or 'f'
local leaves, w = ARGV[5] == '1', waits[id]
if leaves then leaveLine(id) end
if votes[id] and (leaves or tonumber(votes[id].round) <= tonumber(ARGV[2])) then
  finish(id, tonumber(ARGV[3]))
  if w and not leaves then
    waits[id], w.quiet, w.since = w, true, now
  end
  answer = 'y'
  wake(not leaves)
end
remember(round)
return { answer, num(b), num(now) }`,
  { retention: 4, shortCut: fastRelease, flags: ' flags=allow-oom' },
)

/**
 * KEYS: the lock. Result: ballot, time, then of each vote and each waiter: attempt, kind, ballot (0: waits), µs held or waited,
 * µs left, by, note.
 */
export const inspect: Script = script(
  'inspect',
  `local out = { num(b), num(now) }
for id, v in pairs(votes) do
  for _, part in ipairs({ id, v.kind, num(v.ballot), num(now - v.since), num(v.due - now), v.by, v.note }) do
    out[#out + 1] = part
  end
end
for id, w in pairs(waits) do
  for _, part in ipairs(votes[id] and {} or { id, w.kind, '0', num(now - w.since), num(w.due - now), w.by, w.note }) do
    out[#out + 1] = part
  end
end
return out`,
  { flags: ' flags=allow-oom' },
)

/**
 * KEYS: the lock. ARGV: 1 attempt · 2 the last token used · 3 ms a free lock is remembered. Turns an exclusive vote into a shared one.
 * Result: `y` the vote is shared now · `f` the attempt does not have the vote; then ballot and time.
 */
export const downgrade: Script = script(
  'downgrade',
  `local v = votes[ARGV[1]]
if not v then return { 'f', num(b), num(now) } end
if v.kind == 'x' then
  local last = math.min(math.max(tonumber(ARGV[2]), v.ballot), v.ballot + ${tokenReserve})
  b = math.max(b, last)
  v.kind, v.ballot = 's', last
  put(ARGV[1], v)
  wake()
end
return { 'y', num(b), num(now) }`,
  { retention: 3, flags: ' flags=allow-oom' },
)

/**
 * KEYS: the lock. ARGV: 1 ms a free lock is remembered · 2 attempts, a space before and after each: those the operator saw, because the
 * order may arrive twice. Takes back their votes. Result: how many.
 */
export const force: Script = script(
  'force',
  `local ids = {}
for id in pairs(votes) do
  if string.find(ARGV[2], ' ' .. id .. ' ', 1, true) then ids[#ids + 1] = id end
end
for _, id in ipairs(ids) do
  remember(id .. ':' .. votes[id].round)
  finish(id)
end
if #ids > 0 then wake() end
return #ids`,
  { retention: 1, flags: ' flags=allow-oom' },
)
