/**
 * The second half of the common part: the queue, and which waiter to grant. See `state.ts` for the state.
 *
 * `advance` grants the head of the queue for as long as it fits, in the step that made room, and notifies its process to ask.
 * A live waiter sends a request at least every few seconds. One that has been silent for longer is removed from the queue, although its
 * process may be subscribed: it gave up while it could not reach the store, or a promotion undid its removal. For the others the reply of
 * PUBLISH shows at once whether the process is subscribed, so a dead process costs nothing:
 * - received: the waiter holds the lock, for its whole ttl;
 * - not received: its subscriber may be reconnecting, so it is passed over and keeps its queue entry, for three seconds more;
 * - the waiter has no channel (it polls), or this client may not publish: the lock stays free for it until its next poll is due, and
 *   for requests that fit beside it: readers beside a reader, as many permits as it leaves.
 *
 * A Cluster counts only the subscribers of one node. There the lock stays free for two seconds for a waiter whose message had no
 * counted receiver, then the waiter is removed from the queue. Each dead waiter costs that much, all together no more than the
 * twelve seconds for which a waiter is considered alive after it asked.
 *
 * One run checks 32 waiters. If there are more, its reply is where to continue (a score): `acquire` asks again, other verbs continue
 * with `further`.
 *
 * A process whose subscriber is still connected to a former master believes that it can be reached. So the script checks for a subscriber
 * when it enqueues a waiter, too, and without one enqueues it as a waiter that polls. (In a Cluster this cannot be detected.)
 *
 * `barred` is the time until which nothing new may be granted because this server may have forgotten locks. It was decided when a
 * client first reached the server (`server-marker.ts`), and is part of the marker, which is replicated and persisted with the locks. Here the marker is
 * only compared with what the client met: if it is another one, or missing, nothing is granted, and the client has to meet the server
 * again.
 *
 * In a Cluster every slot has its own marker, and the script compares it with the node it runs on: see `slot-marker.ts`. Only `acquire` decides
 * there, as it does here.
 *
 * Messages: `g <attempt>` it is your turn · `n <attempt> <µs>` you are next, ask then at the latest · `c <attempt>` others wait for the
 * lock you hold · `x <attempt>` an operator force-released it ·
 * `v <key>` a cell has changed (`cells.ts`). Any client that may publish can forge them: the process asks the server
 * before it believes one.
 */
import { safetyPoll } from '../../kit/push-schedule.js'

export const line: string = `
local function tell(channel, text)
  local heard = redis.pcall('PUBLISH', channel, text)
  return type(heard) == 'number' and heard or -1
end

local function none(channel) return string.sub(channel, 1, 1) == '-' end

local deaf
local function isDeaf()
  if deaf == nil then
    local n = cluster == '0' and not none(chan) and redis.pcall('PUBSUB', 'NUMSUB', chan)
    deaf = type(n) == 'table' and n[2] == 0
  end
  return deaf
end

-- Second result: is it another marker than the client met?
local function barred()
  if clear == '' then return 0 end
  if slotBar then
    slotTill = slotTill or slotBar(flips)
    return slotTill
  end
  if bar then return bar, stranger end
  local till, rest = string.match(call('GET', KEYS[1]) or '', '^(%d+) (.*)$')
  stranger = not till or string.find(rest, string.sub(clear, 3), 1, true) ~= 1
  if stranger then
    bar = wall + 1000000
  else
    local most = tonumber(string.match(rest, '^%S+ %S+ (%d+)'))
    -- Never longer than it takes for all to run out, in case the clock has been set back.
    bar = math.min(tonumber(till), wall + most + 1000000)
    if bar <= wall then bar = 0 end
    if flips and bar ~= tonumber(till) then call('SET', KEYS[1], num(bar) .. ' ' .. rest) end
  end
  return bar, stranger
end

local function outOfLine(S, id, kind)
  call('HDEL', S.h, 'w:' .. id)
  if kind == 'p' then call('HINCRBY', S.h, 'pw', -1) end
  return call('ZREM', S.q, id)
end

local function waiter(S, id)
  local w = call('HGET', S.h, 'w:' .. id)
  if not w then return nil end
  local kind, take, of, ttl, channel, due, since, who, note =
    string.match(w, '^(%a) (%d+) (%d+) (%d+) (%S+) (%d+) (%d+) (%S+) (.*)$')
  return { kind = kind, take = tonumber(take), of = tonumber(of), ttl = tonumber(ttl), channel = channel,
    due = tonumber(due), since = since, who = who, note = note }
end

local function stand(S, id, w, due)
  local record = { w.kind, w.take, w.of, num(w.ttl), w.channel, num(due), w.since, w.who, w.note }
  call('HSET', S.h, 'w:' .. id, table.concat(record, ' '))
end

-- The number of subscribers notified; 0 for a channel that had none a moment ago, -1 if it cannot be known.
local silent = {}
local function push(id, channel)
  if none(channel) then return -1 end
  -- In a Cluster the count covers one node only, so each waiter gets its own message.
  if cluster == '0' and silent[channel] then return 0 end
  local heard = tell(channel, 'g ' .. id)
  silent[channel] = heard == 0
  return heard
end

-- A waiter polls again when the entry ahead of it ends, unless it is notified before; otherwise it polls every few seconds.
local function foretell(S, at, left)
  if left > ${safetyPoll * 1000} then return end
  for _, id in ipairs(call('ZRANGE', S.q, at, at + 2)) do
    local w = waiter(S, id)
    if w and not none(w.channel) and tell(w.channel, 'n ' .. id .. ' ' .. num(left)) ~= 0 then return end
  end
end

-- Sets S.mine if me was granted, S.open if the whole queue was visited, S.due if the lock is kept free for an entry, S.further
-- if there are more entries than one run may visit. Begins at the score from.
local function walk(S, me, ttl, from)
  S.open, S.kept, S.keeps = not S.line, nil, 0
  if S.open or barred() > 0 then return end
  local at, pushed = from and call('ZCOUNT', S.q, '-inf', '(' .. from) or 0, false
  for seen = 0, 32 do
    local ids = call('ZRANGE', S.q, at, at + 1, 'WITHSCORES')
    local id, more = ids[1], ids[3]
    if not id then
      if at == 0 then S.line = false end
      S.open = true
      return
    end
    if seen == 32 then
      -- Only this run knows whom the lock is kept for: the next run would admit a request that does not fit beside it, except readers among readers.
      if not S.kept or S.m == 's' then S.further = ids[2] end
      return pushed and at
    end
    local w = waiter(S, id)
    if not w then
      call('ZREM', S.q, id)
    elseif not admits(S, w.kind, w.take, w.of) then
      return pushed and at
    elseif id == me then
      outOfLine(S, id, w.kind)
      S.mine = grant(S, id, w.kind, w.take, w.of, ttl, chan, by, w.note)
    elseif w.due <= S.now then
      outOfLine(S, id, w.kind)
    else
      local heard = push(id, w.channel)
      if heard > 0 then
        outOfLine(S, id, w.kind)
        grant(S, id, w.kind, w.take, w.of, w.ttl, w.channel, w.who, w.note)
        pushed = true
      elseif heard < 0 or cluster == '1' then
        local due = w.due
        if heard == 0 and due > S.now + 2000000 then
          due = S.now + 2000000
          stand(S, id, w, due)
          foretell(S, at + 1, 2000000)
        end
        S.due = S.kept and math.min(S.due, due) or due
        if w.kind == 'x' then return end
        S.kept, S.keeps = w.kind, S.keeps + w.take
        at = at + 1
      else
        if w.due > S.now + 3000000 then stand(S, id, w, S.now + 3000000) end
        at = at + 1
      end
    end
    if S.m == 'x' then
      if at == 0 and not more then S.line = false end
      return pushed and more and at
    end
  end
end

local function advance(S, me, ttl, from)
  local waits = walk(S, me, ttl, from)
  if waits then foretell(S, waits, S.e - S.now) end
end

-- The reply of a verb, and where the caller must continue.
local function answer(S, result)
  return S.further and result .. ' ' .. S.further or result
end

-- Brings the lock up to date: drops expired holds, and grants to the waiters that then fit.
local function look(S)
  overdue(S)
  if S.dirty then advance(S) end
end

local function keep(S)
  if S.dirty or S.line ~= S.lined then save(S) end
end
`
