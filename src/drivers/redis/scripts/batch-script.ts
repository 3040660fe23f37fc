/**
 * The frame that runs the items of a script.
 *
 * There is one script per verb, each for any number of items, so that all requests of one tick are one command. Every item is
 * idempotent by its attempt id; one that fails replies `e <error>` without affecting the others. The result for several items is a
 * list, for one item its own reply.
 *
 * With the first key alone only the short cuts run: while a slot is being moved, a Cluster refuses a script that names keys which do
 * not exist. Most locks have only their hash.
 *
 * The general part is a function that is entered only when an item needs it, because creating its closures costs as much as a whole
 * uncontended acquire. Before it comes a short cut for the one case that matters: see `fast-paths.ts`.
 */
import type { ScriptName } from '../reply-shapes.js'
import { line } from './queue.js'
import { slotMarker } from './slot-marker.js'
import { state } from './state.js'

/** A script and the form of its items. */
export interface Script {
  readonly name: ScriptName
  /** Lua text. */
  readonly text: string
  /** Arguments of one item. */
  readonly args: number
}

/** `allow-oom`: release, renew and inspect must work on a server whose memory is full; only acquiring more may be refused. */
export function script(
  name: ScriptName,
  args: number,
  body: string,
  shortCut = '',
  flags = ' flags=allow-oom',
): Script {
  return { name, args, text: `#!lua${flags}\n${frame(args, shortCut, `${state}${line}${body}`)}` }
}

function frame(args: number, fast: string, general: string): string {
  return `local call = redis.call
local tm = call('TIME')
local wall = tm[1] * 1000000 + tm[2]
local clear, me, item = ARGV[1], ARGV[2], nil
local slotBar, slotTill
if clear ~= '' and ARGV[5] ~= '0' then
${slotMarker}
end
local function general()
${general}
return item
end
local k, replies = (clear == '' or slotBar) and 1 or 2, nil
for i = 6, #ARGV, ${args} do
  local reply
${fast}
  if reply == nil then
    if KEYS[k + 2] then
      item = item or general()
      local ok
      ok, reply = pcall(item, KEYS[k], KEYS[k + 1], KEYS[k + 2], unpack(ARGV, i, i + ${args - 1}))
      if not ok then reply = 'e ' .. (type(reply) == 'table' and reply.err or tostring(reply)) end
    else
      reply = 'e TRYAGAIN the slot of this lock is being moved'
    end
  end
  if #ARGV == ${5 + args} then return reply end
  replies = replies or {}
  replies[#replies + 1] = reply
  k = k + 3
end
return replies
`
}
