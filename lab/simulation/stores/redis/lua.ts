// Long because it is one text in another language: a server in one piece.
/**
 * The part of Redis that the driver's scripts use, in Lua, so that the scripts run in it verbatim.
 * `test/simulation/redis-twin.test.ts` compares it with a real server, command by command.
 *
 * Lua here is 5.4, there 5.1: the differences (whole numbers, `unpack`, conversions between numbers and text) are compensated below.
 */
export const server: string = String.raw`
local worlds, compiled, world = {}, {}, nil

local function text(value)
  if type(value) ~= 'number' then return tostring(value) end
  return value == math.floor(value) and string.format('%d', value) or string.format('%.17g', value)
end

-- Says what a real server would say.
local function fail(message) error({ err = message }, 0) end

-- Every other error is a mistake of this text, or something that it lacks. Whoever caught it would take it for an answer.
local mistake
local function outcome(ok, result, ...)
  if not ok and type(result) ~= 'table' then mistake = mistake or tostring(result) end
  return ok, result, ...
end
local function protected(fn, ...) return outcome(pcall(fn, ...)) end

local function entry(key, kind, create)
  local one = world.keys[key]
  if one and one.till and one.till <= world.ms then
    world.keys[key] = nil
    one = nil
  end
  if one and kind and one.kind ~= kind then fail('WRONGTYPE Operation against a key holding the wrong kind of value') end
  if not one and create then
    one = { kind = kind, value = kind == 'string' and '' or {}, size = 0 }
    world.keys[key] = one
  end
  return one
end

local function drop(key, one) if one.size == 0 then world.keys[key] = nil end end

local function ranked(key)
  local one, list = entry(key, 'zset'), {}
  for member, score in pairs(one and one.value or {}) do list[#list + 1] = { member, score } end
  table.sort(list, function(a, b) return a[2] < b[2] or a[2] == b[2] and a[1] < b[1] end)
  return list
end

local function slice(list, from, to, scores)
  from, to = tonumber(from), tonumber(to)
  if from < 0 then from = math.max(0, #list + from) end
  if to < 0 then to = #list + to end
  local found = {}
  for i = from + 1, math.min(to + 1, #list) do
    found[#found + 1] = list[i][1]
    if scores then found[#found + 1] = text(list[i][2]) end
  end
  return found
end

local function bound(limit)
  if limit == '-inf' then return -math.huge, false end
  if limit == '+inf' then return math.huge, false end
  local open = string.sub(limit, 1, 1) == '('
  return tonumber(open and string.sub(limit, 2) or limit), open
end

local function between(key, least, most)
  local low, above = bound(least)
  local high, below = bound(most)
  local found = {}
  for _, one in ipairs(ranked(key)) do
    local score = one[2]
    if (above and score > low or not above and score >= low) and (below and score < high or not below and score <= high) then
      found[#found + 1] = one
    end
  end
  return found
end

local function remove(kind, key, ...)
  local one, count = entry(key, kind), 0
  if not one then return 0 end
  for _, member in ipairs({ ... }) do
    if one.value[member] ~= nil then
      one.value[member] = nil
      one.size = one.size - 1
      count = count + 1
    end
  end
  drop(key, one)
  return count
end

local function put(one, field, value)
  if one.value[field] == nil then one.size = one.size + 1 end
  one.value[field] = value
end

local commands = {}
function commands.TIME() return { text(world.sec), text(world.usec) } end
function commands.INFO() return world.info end
function commands.GET(key)
  local one = entry(key, 'string')
  return one and one.value or false
end
function commands.SET(key, value)
  world.keys[key] = { kind = 'string', value = value, size = 1 }
  return { ok = 'OK' }
end
function commands.EXISTS(key) return entry(key) and 1 or 0 end
function commands.DEL(key)
  local one = entry(key)
  world.keys[key] = nil
  return one and 1 or 0
end
function commands.PERSIST(key)
  local one = entry(key)
  local had = one and one.till
  if one then one.till = nil end
  return had and 1 or 0
end
function commands.PEXPIRE(key, ms)
  local one = entry(key)
  if not one then return 0 end
  one.till = world.ms + tonumber(ms)
  if one.till <= world.ms then world.keys[key] = nil end
  return 1
end
function commands.PTTL(key)
  local one = entry(key)
  if not one then return -2 end
  return one.till and one.till - world.ms or -1
end
function commands.HGET(key, field)
  local one = entry(key, 'hash')
  return one and one.value[field] or false
end
function commands.HMGET(key, ...)
  local one, found = entry(key, 'hash'), {}
  for i, field in ipairs({ ... }) do found[i] = one and one.value[field] or false end
  return found
end
function commands.HSET(key, ...)
  local one, pairs = entry(key, 'hash', true), { ... }
  local before = one.size
  for i = 1, #pairs, 2 do put(one, pairs[i], pairs[i + 1]) end
  return one.size - before
end
function commands.HDEL(key, ...) return remove('hash', key, ...) end
function commands.HINCRBY(key, field, by)
  local one = entry(key, 'hash', true)
  local value = tonumber(one.value[field] or 0) + tonumber(by)
  put(one, field, text(value))
  return value
end
function commands.ZADD(key, ...)
  local one, given = entry(key, 'zset', true), { ... }
  local only = given[1] == 'NX'
  if only then table.remove(given, 1) end
  local before = one.size
  for i = 1, #given, 2 do
    if not (only and one.value[given[i + 1]]) then put(one, given[i + 1], tonumber(given[i])) end
  end
  return one.size - before
end
function commands.ZREM(key, ...) return remove('zset', key, ...) end
function commands.ZCARD(key)
  local one = entry(key, 'zset')
  return one and one.size or 0
end

function commands.ZSCORE(key, member)
  local one = entry(key, 'zset')
  local score = one and one.value[member]
  return score and text(score) or false
end
function commands.ZRANK(key, member)
  for i, one in ipairs(ranked(key)) do if one[1] == member then return i - 1 end end
  return false
end
function commands.ZRANGE(key, from, to, scores) return slice(ranked(key), from, to, scores) end
function commands.ZREVRANGE(key, from, to, scores)
  local list, turned = ranked(key), {}
  for i = #list, 1, -1 do turned[#turned + 1] = list[i] end
  return slice(turned, from, to, scores)
end
function commands.ZRANGEBYSCORE(key, least, most, limit, offset, count)
  local found = between(key, least, most)
  return slice(found, limit and offset or 0, limit and tonumber(offset) + tonumber(count) - 1 or -1, false)
end
function commands.ZCOUNT(key, least, most) return #between(key, least, most) end
function commands.ZREMRANGEBYSCORE(key, least, most)
  local members = {}
  for _, one in ipairs(between(key, least, most)) do members[#members + 1] = one[1] end
  return remove('zset', key, table.unpack(members))
end
function commands.PUBLISH(channel, message)
  local count = world.listeners[channel] or 0
  if count > 0 then world.published[#world.published + 1] = { channel, message } end
  return count
end
function commands.PUBSUB(_, channel) return { channel, world.listeners[channel] or 0 } end

local function call(name, ...)
  local command = commands[name] or error('there is no command ' .. name, 0)
  local args = { ... }
  for i = 1, #args do args[i] = text(args[i]) end
  return command(table.unpack(args))
end

local function guarded(name, ...)
  local _, result = protected(call, name, ...)
  return result
end

-- In 5.1 these two take text for the number that it says.
local function numeric(fn)
  return function(...)
    local args = { ... }
    for i, one in ipairs(args) do args[i] = tonumber(one) or one end
    return fn(table.unpack(args))
  end
end
local maths = setmetatable({ max = numeric(math.max), min = numeric(math.min) }, { __index = math })

local environment = {
  redis = { call = call, pcall = guarded }, unpack = table.unpack, string = string, table = table, math = maths, pcall = protected,
  ipairs = ipairs, pairs = pairs, tonumber = tonumber, tostring = tostring, type = type, error = error,
}

local escapes = { ['"'] = '\\"', ['\\'] = '\\\\', ['\n'] = '\\n', ['\r'] = '\\r', ['\t'] = '\\t' }
local function quoted(value) return '"' .. string.gsub(value, '["\\%c]', escapes) .. '"' end
local function json(value)
  local kind = type(value)
  if kind == 'string' then return quoted(value) end
  -- A script's numbers leave it without their fractions.
  if kind == 'number' then return string.format('%d', value < 0 and math.ceil(value) or math.floor(value)) end
  if kind == 'boolean' then return value and '1' or 'null' end
  if kind == 'nil' then return 'null' end
  if value.ok then return quoted(value.ok) end
  local parts = {}
  for i, one in ipairs(value) do parts[i] = json(one) end
  return '[' .. table.concat(parts, ',') .. ']'
end

function begin(id) worlds[id] = { keys = {}, listeners = {}, published = {}, info = '' } end
function tell(id, info) worlds[id].info = info end
-- Keys are replaced by scripts, never changed for those who have seen them, but for what is in them: that is copied.
local function copy(keys)
  local copied = {}
  for key, one in pairs(keys) do
    local value = one.value
    if type(value) == 'table' then
      value = {}
      for field, content in pairs(one.value) do value[field] = content end
    end
    copied[key] = { kind = one.kind, value = value, size = one.size, till = one.till }
  end
  return copied
end
function save(id) worlds[id].saved = copy(worlds[id].keys) end
function recall(id) worlds[id].keys = copy(worlds[id].saved or {}) end
function finish(id) worlds[id] = nil end
function flush(id) worlds[id].keys = {} end
function listeners(id, channel, count) worlds[id].listeners[channel] = count > 0 and count or nil end
function compile(sha, source)
  compiled[sha] = assert(load(string.gsub(source, '^#![^\n]*', ''), sha, 't', environment))
end
function run(id, sha, sec, usec, count, arguments)
  world = worlds[id]
  world.sec, world.usec, world.ms, world.published = sec, usec, sec * 1000 + math.floor(usec / 1000), {}
  local keys, args, n = {}, {}, 0
  for one in string.gmatch(arguments, '([^\1]*)\1') do
    n = n + 1
    if n <= count then keys[n] = one else args[n - count] = one end
  end
  environment.KEYS, environment.ARGV = keys, args
  mistake = nil
  local ok, result = protected(compiled[sha])
  if mistake then return '{"mistake":' .. quoted(mistake) .. '}' end
  local failure = not ok and result or type(result) == 'table' and result.err and result
  if failure then return '{"error":' .. quoted(failure.err) .. '}' end
  local published = {}
  for i, one in ipairs(world.published) do published[i] = '[' .. quoted(one[1]) .. ',' .. quoted(one[2]) .. ']' end
  return '{"reply":' .. json(result) .. ',"published":[' .. table.concat(published, ',') .. ']}'
end
-- Names that hold or wait, and until when the holds last, for observers.
function busy(id, sec, usec)
  world = worlds[id]
  world.ms = sec * 1000 + math.floor(usec / 1000)
  local found, now = {}, sec * 1000000 + usec
  for key, one in pairs(world.keys) do
    if entry(key) and one.kind == 'hash' and one.value.s then
      local mode, line, shift, due = string.match(one.value.s, '^(.) (.) (%d+) (%d+)')
      local alive = mode ~= '-' and tonumber(due) > now + tonumber(shift)
      -- A queue entry whose process sent no heartbeat in time is dropped by the next script that reads it; it keeps nobody out.
      for field, record in pairs(one.value) do
        local seen = line == '1' and string.sub(field, 1, 2) == 'w:' and
          string.match(record, '^%d+ %d+ %a %d+ %d+ %d+ %d+ %S+ (%d+)')
        if seen and tonumber(seen) > now + tonumber(shift) then alive = true end
      end
      if alive then found[#found + 1] = quoted(key) end
    end
  end
  return '[' .. table.concat(found, ',') .. ']'
end
`
