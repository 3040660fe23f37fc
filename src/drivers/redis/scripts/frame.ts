/**
 * What runs the items of a script.
 *
 * One script per verb, each for any number of items, so that what one tick asks for is one command. Every item is
 * idempotent by its attempt id, and one that fails answers `e <error>` without harm to the others. Of several items the
 * result is a list, of one its own answer.
 *
 * The general part is a function that is entered only when an item needs it, because making its closures costs as much as
 * a whole uncontended acquire. Before it stands a short cut for the one case that matters: see `short-cuts.ts`.
 */
import { line } from './line.js'
import { state } from './state.js'

/** A script and how its items look. */
export interface Script {
  readonly name: string
  /** Lua text. */
  readonly text: string
  /** Arguments of one item. */
  readonly args: number
}

/** `allow-oom`: giving back, proving again and looking must work on a full server; only taking more may be refused. */
export function script(
  name: string,
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
local function general()
${general}
return item
end
local k, replies = clear == '' and 1 or 2, nil
for i = 6, #ARGV, ${args} do
  local reply
${fast}
  if reply == nil then
    item = item or general()
    local ok
    ok, reply = pcall(item, KEYS[k], KEYS[k + 1], KEYS[k + 2], unpack(ARGV, i, i + ${args - 1}))
    if not ok then reply = 'e ' .. (type(reply) == 'table' and reply.err or tostring(reply)) end
  end
  if #ARGV == ${5 + args} then return reply end
  replies = replies or {}
  replies[#replies + 1] = reply
  k = k + 3
end
return replies
`
}
