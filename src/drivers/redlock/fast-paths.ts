/**
 * The short cuts of `vote`, `release` and, for many locks at once, of `renew`: an uncontended lock, on a clock that has not gone back. Each does what the general part
 * would do, without building its tables, and replies with one string instead of a list; or it does nothing, and the general part
 * follows. `fast-paths.test.ts` runs both against each other.
 */
import { tokenReserve } from '../../core/token.js'
import type { Script } from './state.js'

export const fastVote: string = `
if marker == ARGV[1] and ARGV[7] == '0' and not string.find(stored, '\\n', 1, true) then
  local id, round, asked = ARGV[2], ARGV[3], ARGV[6]
  local top, seen, z, past = string.match(stored, '^(%d+) (%d+) (%d+)()')
  if z == '0' and tonumber(seen) <= wall and not string.find(stored .. ' ', ' ' .. id .. ':' .. round .. ' ', past, true) then
    local ballot = tonumber(asked)
    if ballot > tonumber(top) and ballot >= wall - 1000000 then
      local at = string.format('%d', wall)
      call('SET', h, asked .. ' ' .. at .. ' 0' .. string.sub(stored, past) .. '\\nv ' .. id .. ' ' .. ARGV[4] .. ' ' ..
        string.format('%d', wall + ARGV[5]) .. ' ' .. asked .. ' ' .. at .. ' ' .. round .. ' ' .. ARGV[9] .. ' ' .. ARGV[12])
      return 'y ' .. asked .. ' ' .. at .. ' ' .. asked
    end
  end
end`

export const fastRelease: string = `
local line = string.find(stored, '\\nv ' .. ARGV[1] .. ' ', 1, true)
if line and ARGV[5] == '1' and string.find(stored, '\\n', 1, true) == line and not string.find(stored, '\\n', line + 1, true) then
  local top, seen, z, at = string.match(stored, '^(%d+) (%d+) (%d+)()')
  local kind, due, ballot = string.match(stored, '^(%a) (%d+) (%d+) ', line + 4 + #ARGV[1])
  local past, round = string.sub(stored, at, line - 1), ' ' .. ARGV[1] .. ':' .. ARGV[2]
  if z == '0' and tonumber(due) > wall and tonumber(seen) <= wall and not string.find(past .. ' ', round .. ' ', 1, true) then
    local most = kind == 'x' and ballot + ${tokenReserve} or tonumber(ballot)
    top = string.format('%d', math.max(top, math.min(math.max(ARGV[3], ballot), most)))
    local at = string.format('%d', wall)
    -- The seven newest of those before it.
    past = string.match(past, '^( %S+ %S+ %S+ %S+ %S+ %S+ %S+) ') or past
    call('SET', h, top .. ' ' .. at .. ' 0' .. round .. past, 'PX', lasting(top, ARGV[4]))
    return 'y ' .. top .. ' ' .. at
  end
end`

/**
 * Renews many locks: those of which `renew` would change nothing but the deadline of their only vote.
 * KEYS: the marker, then the locks. ARGV: 1 boot id · 2 the ttl and order as for `renew` · then the attempt of each lock.
 * Result: `k`, or `b`: another marker; then a letter for each lock, `y` renewed · `g` ask for it with `renew`; and the time.
 */
export const renewMany: Script = {
  name: 'renewMany',
  text: `#!lua flags=allow-oom
local call = redis.call
local tm = call('TIME')
local wall = tm[1] * 1000000 + tm[2]
local ttl, order = string.match(ARGV[2], '^(%d+) ?(%d*)$')
local at = string.format('%d', wall)
local stored = call('MGET', unpack(KEYS))
if stored[1] ~= ARGV[1] then return { 'b', '', at } end
local letters = {}
for i = 2, #KEYS do
  local top, seen, past, id, kind, lasts, rest =
    string.match(stored[i] or '', '^(%d+) (%d+) 0([^\\n]*)\\nv (%S+) (%a) (%d+) ([^\\n]*)$')
  letters[i - 1] = 'g'
  if id == ARGV[i + 1] and tonumber(lasts) > wall and tonumber(seen) <= wall then
    local least = tonumber(lasts)
    if order ~= '' then
      local ballot, since, round, known, by = string.match(rest, '^(%d+) (%d+) (%d+):?(%d*) (.*)$')
      if known == '' or tonumber(known) < tonumber(order) then
        least, rest = 0, ballot .. ' ' .. since .. ' ' .. round .. ':' .. order .. ' ' .. by
      end
    end
    local due = string.format('%d', math.max(least, wall + ttl))
    call('SET', KEYS[i], top .. ' ' .. at .. ' 0' .. past .. '\\nv ' .. id .. ' ' .. kind .. ' ' .. due .. ' ' .. rest)
    letters[i - 1] = 'y'
  end
end
return { 'k', table.concat(letters), at }
`,
}
