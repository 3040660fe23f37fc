/**
 * Cells: a hash `c` with `n` the version, `v` the value (absent: the cell was removed, which is remembered for a while) and `i` the
 * id of the change that made it; and a zset `w` of the channels to notify of the next change, scored by the time in µs until which
 * their processes want that.
 */
import type { Script } from './batch-script.js'

/** KEYS: c. ARGV: none. Result: version, value; nil when there is no cell. */
export const readCell: Script = {
  name: 'readCell',
  args: 0,
  text: `#!lua flags=no-writes
local v = redis.call('HMGET', KEYS[1], 'n', 'v')
return v[2] and v or false
`,
}

/**
 * KEYS: c, w. ARGV: version seen (0: none), id, ms to keep ('' = for ever), ms to remember a removal, the value unless this is a
 * removal. Result: the new version; nil when another change was faster. Watching channels receive `v <key>`.
 */
export const writeCell: Script = {
  name: 'writeCell',
  args: 0,
  text: `#!lua
local call = redis.call
local key, id, value = KEYS[1], ARGV[2], ARGV[5]
local old = call('HMGET', key, 'n', 'i', 'v')
if old[2] == id then return old[1] end
local n = tonumber(old[1] or 0)
if (old[3] and n or 0) ~= tonumber(ARGV[1]) then return false end
local tm = call('TIME')
local wall = tm[1] * 1000000 + tm[2]
n = string.format('%d', math.max(n + 1, wall))
call('HSET', key, 'n', n, 'i', id)
if value then
  call('HSET', key, 'v', value)
  if ARGV[3] == '' then call('PERSIST', key) else call('PEXPIRE', key, ARGV[3]) end
else
  call('HDEL', key, 'v')
  call('PEXPIRE', key, ARGV[4])
end
local watching = call('ZRANGEBYSCORE', KEYS[2], wall, '+inf', 'LIMIT', 0, 10000)
if watching[1] then
  call('DEL', KEYS[2])
  for _, channel in ipairs(watching) do redis.pcall('PUBLISH', channel, 'v ' .. key) end
end
return n
`,
}

/**
 * KEYS: c, w. ARGV: version seen (0: none), channel, ms for which the channel is to be notified. Result: 'changed' when the cell has
 * left that version; else ms until the cell expires, -1: never.
 */
export const watchCell: Script = {
  name: 'watchCell',
  args: 0,
  text: `#!lua
local call = redis.call
local v = call('HMGET', KEYS[1], 'n', 'v')
if (v[2] and tonumber(v[1]) or 0) ~= tonumber(ARGV[1]) then return 'changed' end
if string.sub(ARGV[2], 1, 1) ~= '-' then
  local tm = call('TIME')
  local wall = tm[1] * 1000000 + tm[2]
  call('ZADD', KEYS[2], wall + ARGV[3] * 1000, ARGV[2])
  call('ZREMRANGEBYSCORE', KEYS[2], '-inf', '(' .. wall)
  call('PEXPIRE', KEYS[2], ARGV[3])
end
return v[2] and call('PTTL', KEYS[1]) or -1
`,
}
