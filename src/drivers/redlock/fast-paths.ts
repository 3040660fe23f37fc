/**
 * The short cuts of `vote` and `release`: an uncontended lock, on a clock that has not gone back. Each does what the general part
 * would do, without building its tables, and replies with one string instead of a list; or it does nothing, and the general part
 * follows. `fast-paths.test.ts` runs both against each other.
 */
import { tokenReserve } from '../../core/token.js'

export const fastVote: string = `
local top, seen, z, past = string.match(stored, '^(%d+) (%d+) (%d+)([^\\n]*)$')
if z == '0' and marker == ARGV[1] and ARGV[7] == '0' and tonumber(seen) <= wall then
  local ballot, round = tonumber(ARGV[6]), ' ' .. ARGV[2] .. ':' .. ARGV[3] .. ' '
  if ballot > tonumber(top) and ballot >= wall - 1000000 and not string.find(past .. ' ', round, 1, true) then
    local at = string.format('%d', wall)
    call('SET', h, string.format('%s %s 0%s\\nv %s %s %d %s %s %s %s %s', ARGV[6], at, past,
      ARGV[2], ARGV[4], wall + ARGV[5], ARGV[6], at, ARGV[3], ARGV[9], ARGV[12]))
    return 'y ' .. ARGV[6] .. ' ' .. at .. ' ' .. ARGV[6]
  end
end`

export const fastRelease: string = `
local top, seen, past, id, kind, due, ballot =
  string.match(stored, '^(%d+) (%d+) 0([^\\n]*)\\nv (%S+) (%a) (%d+) (%d+) [^\\n]*$')
if id == ARGV[1] and ARGV[5] == '1' and tonumber(due) > wall and tonumber(seen) <= wall then
  local round = ' ' .. id .. ':' .. ARGV[2]
  if not string.find(past .. ' ', round .. ' ', 1, true) then
    local most = kind == 'x' and ballot + ${tokenReserve} or tonumber(ballot)
    top = string.format('%d', math.max(top, math.min(math.max(ARGV[3], ballot), most)))
    local at = string.format('%d', wall)
    -- The seven newest of those before it.
    past = string.match(past, '^( %S+ %S+ %S+ %S+ %S+ %S+ %S+) ') or past
    call('SET', h, top .. ' ' .. at .. ' 0' .. round .. past, 'PX', lasting(top, ARGV[4]))
    return 'y ' .. top .. ' ' .. at
  end
end`
