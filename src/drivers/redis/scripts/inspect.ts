/** Looking without touching: what `inspect` and `list` show. */
import type { Script } from './frame.js'

/**
 * KEYS: h, q, d. ARGV: none. Result: state, time now in µs, limit, the shared and permit holds as attempt, deadline,
 * record …, the waiters as attempt, record …; records and state as told in `state.ts`.
 */
export const inspect: Script = {
  name: 'inspect',
  args: 0,
  text: `#!lua flags=no-writes
local call = redis.call
local tm = call('TIME')
local v = call('HMGET', KEYS[1], 's', 'of')
local s = v[1] or ''
local mode, shift, seen = string.match(s, '^(.) . (%d+) %d+ %d+ (%d+)')
local now = math.max(tm[1] * 1000000 + tm[2] + (shift or 0), tonumber(seen or 0))
local holds, waits = {}, {}
local function add(list, prefix, id, deadline)
  local record = call('HGET', KEYS[1], prefix .. id)
  if record then
    list[#list + 1] = id
    if deadline then list[#list + 1] = deadline end
    list[#list + 1] = record
  end
end
if mode == 's' or mode == 'p' then
  local ids = call('ZRANGE', KEYS[3], 0, 999, 'WITHSCORES')
  for i = 1, #ids, 2 do add(holds, 'h:', ids[i], ids[i + 1]) end
end
for _, id in ipairs(call('ZRANGE', KEYS[2], 0, 999)) do
  add(waits, 'w:', id)
  -- Not heard of in time: dead, and out of the line as soon as anybody gets there.
  local due = string.match(waits[#waits] or '', '^%d+ %d+ %a %d+ %d+ %d+ %d+ %S+ (%d+)')
  if due and tonumber(due) <= now then waits[#waits], waits[#waits - 1] = nil, nil end
end
return { s, now, v[2] or '0', holds, waits }
`,
}
