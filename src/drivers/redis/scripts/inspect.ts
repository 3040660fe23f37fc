/** The read-only script behind `inspect` and `list`. */
import type { Script } from './batch-script.js'

/**
 * How many holders and waiters are listed, because a script blocks the server; the rest is only counted. Participants of a barrier,
 * latch or pool count as alive while their hold is listed, so all of them must fit: a cell has room for some 3,000 names.
 */
const listed = { holders: 10_000, waiters: 1_000 }

/**
 * KEYS: h, q, d. ARGV: none. Result: state, time now in µs, limit, the shared and permit holds as attempt, deadline,
 * record …, the waiters as attempt, record …, how many more there are; records and state as described in `state.ts`.
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
local more = math.max(0, call('ZCARD', KEYS[2]) - ${listed.waiters})
local function add(list, prefix, id, deadline)
  local record = call('HGET', KEYS[1], prefix .. id)
  if record then
    list[#list + 1] = id
    if deadline then list[#list + 1] = deadline end
    list[#list + 1] = record
  end
end
if mode == 's' or mode == 'p' then
  more = more + math.max(0, call('ZCARD', KEYS[3]) - ${listed.holders})
  local ids = call('ZRANGE', KEYS[3], 0, ${listed.holders - 1}, 'WITHSCORES')
  for i = 1, #ids, 2 do add(holds, 'h:', ids[i], ids[i + 1]) end
end
for _, id in ipairs(call('ZRANGE', KEYS[2], 0, ${listed.waiters - 1})) do
  add(waits, 'w:', id)
  -- Has not polled in time: dead, and removed from the queue by the next request that visits it.
  local due = string.match(waits[#waits] or '', '^%a %d+ %d+ %d+ %S+ (%d+)')
  if due and tonumber(due) <= now then waits[#waits], waits[#waits - 1] = nil, nil end
end
return { s, now, v[2] or '0', holds, waits, more }
`,
}
