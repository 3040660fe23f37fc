/**
 * The first part of every script: the state of one lock, read into a table and written back once.
 *
 * Three keys hold a lock, all in the slot of its name (`keys.ts`):
 *
 * | key | what |
 * |---|---|
 * | `h` hash | `s` the state, below · `x` the attempts that ended last, and ghosts: attempts abandoned while a request of theirs may
 *               be in flight · `n` and `n:<attempt>` `<attempt> <order>`, the newest renewal that may have shortened an exclusive hold, or
 *               another · `k` `of` permits taken and their limit · `pw` `pl` how many wait for permits, and their limit ·
 *               `h:<attempt>` record of a shared or permit hold · `w:<attempt>` record of a waiter |
 * | `q` zset | the queue: attempt by arrival |
 * | `d` zset | shared and permit holds: attempt by deadline |
 *
 * `s` is `mode line shift deadline token seen owner record`: the mode held (`-` free, x exclusive, s shared, p permits),
 * 1 while the queue is not empty, the amount added to the server's clock, when the next hold is overdue, the newest token, the last
 * time seen, and the exclusive owner's attempt and record. It is one packed field, because reading and writing it is most of what an
 * uncontended acquire and release do. An exclusive hold owns `token` and the reserve after it.
 *
 * The record of an exclusive hold is `since channel by note`, of other holds `token take since channel by note`, of a waiter
 * `kind take of ttl channel due since by note`. All times are the server's, in microseconds.
 *
 * The hash has a time to live only while the lock is free: a held one is not volatile, so `volatile-*` eviction cannot drop it, and a
 * free one does not stay for ever. Time never goes back: when the server's clock does, the difference is added from then on
 * (`shift`), so that leases neither end early nor last longer by the length of the jump.
 *
 * KEYS: the boot marker first when ARGV[1] is not '' and this is no Cluster, then h, q, d of each item.
 * ARGV: 1 how the boot marker begins when nothing is wrong: `0 <boot id> <lineage> ` (see `server-marker.ts`); in a Cluster the full
 * name of the slot's marker (see `slot-marker.ts`), which is no key, because it may be at the other side of a move; '' = do not check ·
 * 2 `<channel, - = none, -<channel> = not up now, -! = none and the client may not publish either> <the client's name>` · 3 tokens
 * reserved by an exclusive grant · 4 ms a free lock is remembered · 5 '0'; in a Cluster, where PUBLISH counts only part of the receivers,
 * `<slot> <longest ttl in µs>`, and ` e` if a node that may evict locks in use is refused (see `eviction.ts`). Then the items.
 */
export const state = `
local flips, bar, stranger, reserve = false, nil, false, tonumber(ARGV[3])
local cluster = ARGV[5] == '0' and '0' or '1'
local chan, by = string.match(me, '^(%S+) (%S+)$')
local function num(n) return string.format('%d', n) end

local function load(h, q, d)
  local v = call('HMGET', h, 's', 'x')
  local S = { h = h, q = q, d = d, m = '-', o = '-', r = '', e = 0, t = 0, z = 0, now = wall, x = v[2] or '' }
  if v[1] then
    local m, f, z, e, t, lt, o, r = string.match(v[1], '^(.) (.) (%d+) (%d+) (%d+) (%d+) (%S+) ?(.*)$')
    S.m, S.line, S.z, S.e, S.t, S.o, S.r = m, f == '1', tonumber(z), tonumber(e), tonumber(t), o, r
    S.now, lt = wall + S.z, tonumber(lt)
    if S.now < lt then
      if lt - S.now > 500000 then S.z = S.z + lt - S.now end
      S.now = lt
    end
    S.lined, S.free, S.known = S.line, m == '-', true
  elseif v[2] then
    -- Only ended attempts are remembered, for a while.
    S.free = true
  end
  return S
end

local function save(S, ...)
  S.dirty, S.lined = false, S.line
  local s = S.m .. (S.line and ' 1 ' or ' 0 ') .. num(S.z) .. ' ' .. num(S.e) .. ' ' .. num(S.t) .. ' ' .. num(S.now) ..
    ' ' .. S.o .. ' ' .. S.r
  if S.k then
    call('HSET', S.h, 's', s, 'k', S.k, 'of', S.of, ...)
  else
    call('HSET', S.h, 's', s, ...)
  end
  if S.m == '-' then
    call('PEXPIRE', S.h, ARGV[4])
  elseif S.free then
    call('PERSIST', S.h)
  end
end

local function permits(S)
  if not S.k then
    local v = call('HMGET', S.h, 'k', 'of')
    S.k = tonumber(v[1] or 0)
    S.of = tonumber(v[2] or 0)
  end
end

local function holds(S, id)
  if S.m == 'x' then return S.o == id end
  return S.m ~= '-' and call('ZSCORE', S.d, id) ~= false
end

-- A copy of a request may come late: it shortens nothing.
local function prolong(S, id, e)
  if S.m == 'x' then S.e = math.max(S.e, e) else call('ZADD', S.d, math.max(tonumber(call('ZSCORE', S.d, id)), e), id) end
end

-- token, take, since, channel, by, note
local function hold(S, id)
  if S.m == 'x' then return S.t, 1, string.match(S.r, '^(%d+) (%S+) (%S+) (.*)$') end
  local token, take, since, channel, who, note =
    string.match(call('HGET', S.h, 'h:' .. id) or '', '^(%d+) (%d+) (%d+) (%S+) (%S+) (.*)$')
  return tonumber(token or 0), tonumber(take or 0), since, channel, who, note
end

local function nextDue(S)
  local first = call('ZRANGE', S.d, 0, 0, 'WITHSCORES')
  if first[1] then S.e = tonumber(first[2]) else S.m, S.o, S.r = '-', '-', '' end
end

-- An exclusive hold that was not released may have used its whole token reserve.
local function leave(S, id, last)
  S.dirty = true
  if S.m == 'x' then
    S.t = math.min(math.max(last or S.t + reserve, S.t), S.t + reserve)
    S.m, S.o, S.r = '-', '-', ''
    return
  end
  local _, take = hold(S, id)
  call('ZREM', S.d, id)
  call('HDEL', S.h, 'h:' .. id, 'n:' .. id)
  if S.m == 'p' then
    permits(S)
    S.k = S.k - take
  end
  nextDue(S)
end

-- Ends expired holds, at most 128: a script must not block the server. S.further: there are more.
local function overdue(S)
  if S.m == '-' or S.e > S.now then return end
  if S.m == 'x' then return leave(S, S.o) end
  local ids = call('ZRANGEBYSCORE', S.d, '-inf', num(S.now), 'LIMIT', 0, 128)
  if ids[1] then
    S.dirty = true
    local fields = {}
    for i, id in ipairs(ids) do fields[i] = 'h:' .. id end
    if S.m == 'p' then
      permits(S)
      for _, record in ipairs(call('HMGET', S.h, unpack(fields))) do
        S.k = S.k - tonumber(record and string.match(record, '^%d+ (%d+)') or 0)
      end
    end
    call('ZREM', S.d, unpack(ids))
    for i, id in ipairs(ids) do fields[#ids + i] = 'n:' .. id end
    call('HDEL', S.h, unpack(fields))
  end
  nextDue(S)
  if S.m ~= '-' and S.e <= S.now then S.further = '0' end
end

local function ended(S, id)
  return S.x ~= '' and string.find(S.x, ' ' .. id .. ' ', 1, true)
end

-- The four newest ended attempts, and the unexpired tombstones, each after its expiry.
local function remember(S, id, till)
  local kept, n = till and ' ~' .. num(till) .. ' ' .. id .. ' ' or ' ' .. id .. ' ', 1
  local ghost
  for one in string.gmatch(S.x, '%S+') do
    if string.sub(one, 1, 1) == '~' then
      ghost = one
    elseif ghost then
      if one ~= id and tonumber(string.sub(ghost, 2)) > S.now and #kept < 4000 then kept = kept .. ghost .. ' ' .. one .. ' ' end
      ghost = nil
    elseif one ~= id and n < 4 then
      kept, n = kept .. one .. ' ', n + 1
    end
  end
  S.x = kept
end

-- A newcomer must also fit beside the waiters for whom the lock is kept free (S.kept: their kind, S.keeps: their permits).
local function admits(S, kind, take, of)
  local m = S.m == '-' and S.kept or S.m
  if m == '-' then return true end
  if kind == 'x' or kind ~= m then return false end
  if kind == 's' then return true end
  permits(S)
  return (S.m == 'p' and S.k or 0) + (S.keeps or 0) + take <= of
end

local function mint(S) return math.max(S.t + 1, wall) end

local function grant(S, id, kind, take, of, ttl, channel, who, note)
  local e = S.now + ttl
  S.t, S.dirty = mint(S), true
  local record = num(S.now) .. ' ' .. channel .. ' ' .. who .. ' ' .. note
  if kind == 'x' then
    S.m, S.o, S.e, S.r = 'x', id, e, record
    return S.t
  end
  if kind == 'p' then
    if S.m == '-' then S.k = 0 else permits(S) end
    S.k, S.of = S.k + take, of
  end
  if S.m == '-' or e < S.e then S.e = e end
  S.m = kind
  call('HSET', S.h, 'h:' .. id, num(S.t) .. ' ' .. num(take) .. ' ' .. record)
  call('ZADD', S.d, e, id)
  return S.t
end
`
