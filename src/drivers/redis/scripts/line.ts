/**
 * The second half of the common part: the line, and who may be let in. See `state.ts` for the state.
 *
 * `advance` grants the head of the line for as long as it fits, in the step that made room, and pushes each grant to its
 * process. PUBLISH tells at once whether anybody listens, so a dead process costs nothing:
 * - heard: it holds, for a short *claim* that its process extends;
 * - not heard, but it asked not long ago: its subscriber is reconnecting, so it is passed over and keeps its place, for
 *   three seconds more;
 * - not heard for longer: out of the line;
 * - it has no channel (it polls), or this client may not publish: the lock stays free for it until its next poll is due.
 *
 * A process whose subscriber is at another server, one that was the master before, thinks it can be reached. Whether anybody
 * listens is looked at as it takes its place, too, and one that is deaf stands there as one that polls. (In a Cluster it cannot be seen.)
 *
 * `barred` says until when nothing new may be granted because this server may have forgotten locks. It compares the boot
 * id the client knows with the one in the marker `<barred until> <longest ttl> <boot id>`, which is replicated and persisted
 * with the locks: a restarted or promoted server has another id than its data say. A request that was on its way during
 * the change may still carry the old id and turn the marker back; that can only lengthen the time nothing is granted.
 *
 * `young` is what there is instead in a Cluster, where no key can speak for all slots: a server that has been up for less time
 * than this client has used the Cluster has restarted meanwhile. A lock it does not know may be one it has forgotten, and
 * is not granted until all that was held before has run out. Nothing is written before that, so that it stays unknown.
 *
 * Pushes: `g <attempt> <token> <age µs> <n> <claim µs> <1 = others wait> <h>` granted, age counted from the server's reading
 * of request n · `n <attempt> <µs>` you are next, and the claim above you runs out then ·
 * `c <attempt>` somebody waits for what you hold · `x <attempt>` an operator took it.
 */
export const line = `
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

local function mark(till, ttl)
  call('SET', KEYS[1], num(till) .. ' ' .. num(ttl) .. ' ' .. boot)
end

local function barred()
  if clear == '' then return 0 end
  if bar then return bar end
  bar = 0
  local asked = tonumber(longest)
  local till, ttl, writer = string.match(call('GET', KEYS[1]) or '', '^(%d+) (%d+) (%S+)$')
  local most = math.max(asked, tonumber(ttl or 0))
  -- Never longer than it takes for all to run out, in case the clock has been set back.
  local standing = till and tonumber(till) > wall and math.min(tonumber(till), wall + most + 1000000) or 0
  if writer == boot then
    bar = standing
    if flips and (asked > tonumber(ttl) or till ~= '0' and bar == 0) then mark(bar, most) end
  elseif flips then
    if writer or strict == '1' then bar = (since == '0' and wall or tonumber(since)) + most + 1000000 end
    bar = math.max(bar > wall and bar or 0, standing)
    mark(bar, most)
  elseif writer then
    bar = wall + 1000000
  end
  return bar
end

-- In a Cluster: until when a server that has just started may have forgotten this lock.
local function young(S)
  if cluster == '0' or since == '0' or S.known then return 0 end
  local info = redis.pcall('INFO', 'server')
  local up = type(info) == 'string' and tonumber(string.match(info, 'uptime_in_seconds:(%d+)'))
  if not up or up * 1000000 >= tonumber(since) then return 0 end
  return wall + tonumber(longest) + 1000000 - up * 1000000
end

local function outOfLine(S, id, kind)
  call('HDEL', S.h, 'w:' .. id)
  if kind == 'p' then call('HINCRBY', S.h, 'pw', -1) end
  return call('ZREM', S.q, id)
end

local function waiter(S, id)
  local w = call('HGET', S.h, 'w:' .. id)
  if not w then return nil end
  local n, seen, kind, take, of, ttl, claim, channel, due, since, who, note =
    string.match(w, '^(%d+) (%d+) (%a) (%d+) (%d+) (%d+) (%d+) (%S+) (%d+) (%d+) (%S+) (.*)$')
  return { n = n, seen = tonumber(seen), kind = kind, take = tonumber(take), of = tonumber(of), ttl = tonumber(ttl),
    claim = tonumber(claim), channel = channel, due = tonumber(due), since = since, who = who, note = note }
end

local function stand(S, id, w, due)
  call('HSET', S.h, 'w:' .. id, table.concat({ w.n, num(w.seen), w.kind, w.take, w.of, num(w.ttl), num(w.claim), w.channel,
    num(due), w.since, w.who, w.note }, ' '))
end

local function push(S, id, w, more)
  return tell(w.channel, 'g ' .. id .. ' ' .. num(mint(S)) .. ' ' .. num(S.now - w.seen) .. ' ' .. w.n .. ' ' ..
    num(w.claim) .. ' ' .. (more and '1 ' or '0 ') .. S.h)
end

-- The first in line is told when the claim above it runs out: should it never be extended, somebody must look.
local function foretell(S, at)
  for _, id in ipairs(call('ZRANGE', S.q, at, at + 2)) do
    local w = waiter(S, id)
    if w and not none(w.channel) and tell(w.channel, 'n ' .. id .. ' ' .. num(S.e - S.now)) ~= 0 then return end
  end
end

-- Sets S.mine when me was granted, S.open when the whole line was passed, S.due when the lock is kept free for a poll.
local function walk(S, me, ttl)
  if not S.line then
    S.open = true
    return
  end
  if barred() > 0 then return end
  local at, pushed = 0, false
  for _ = 1, 32 do
    local ids = call('ZRANGE', S.q, at, at + 1)
    local id, more = ids[1], ids[2]
    if not id then
      if at == 0 then S.line = false end
      S.open = true
      return
    end
    local w = waiter(S, id)
    if not w then
      call('ZREM', S.q, id)
    elseif not admits(S, w.kind, w.take, w.of) then
      return pushed and at
    elseif id == me then
      outOfLine(S, id, w.kind)
      S.mine = grant(S, id, w.kind, w.take, w.of, ttl, chan, by, w.note)
      S.more = more
    else
      local heard = none(w.channel) and -1 or push(S, id, w, more)
      if heard > 0 or heard == 0 and cluster == '1' and w.due > S.now then
        outOfLine(S, id, w.kind)
        grant(S, id, w.kind, w.take, w.of, w.claim, w.channel, w.who, w.note)
        pushed = true
      elseif w.due <= S.now then
        outOfLine(S, id, w.kind)
      elseif heard < 0 then
        S.due = w.due
        return
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

local function advance(S, me, ttl)
  local waits = walk(S, me, ttl)
  if waits then foretell(S, waits) end
end

-- Brings the lock up to date: what is overdue goes, and who then fits comes in.
local function look(S)
  overdue(S)
  if S.dirty then advance(S) end
end

local function keep(S)
  if S.dirty or S.line ~= S.lined then save(S) end
end
`
