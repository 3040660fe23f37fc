/**
 * The short cuts: an uncontended exclusive lock, on a clock that has not gone back. Each runs for one item: `i` is its first argument,
 * `k` its first key, `wall` the time and `clear` how the boot marker begins when nothing is wrong. It does what the general part
 * would do, or leaves `reply` nil. `differential.test.ts` runs every script with and without the short cuts.
 */
import { evictionBar } from './eviction.js'

export const fastAcquire: string = `${evictionBar}
  if slotBar then slotTill = slotBar(true) end
  if reply == nil and ARGV[i + 1] == 'x' and (clear == '' or slotTill == 0 or
    not slotBar and string.find(call('GET', KEYS[1]) or '', clear, 1, true) == 1) then
    local h, id = KEYS[k], ARGV[i]
    local v = redis.pcall('HMGET', h, 's', 'x')
    local t, lt = string.match(v[1] or '- 0 0 0 0 0 ', '^%- 0 0 %d+ (%d+) (%d+) ')
    -- While the slot is being moved, a lock that is not here may have left its quarantine on the other side.
    local sure = v[1] or not slotBar or KEYS[2]
    if t and sure and not v.err and tonumber(t) < wall and tonumber(lt) <= wall and not (v[2] and string.find(v[2], id, 1, true)) then
      local now = string.format('%d', wall)
      call('HSET', h, 's', 'x 0 0 ' .. string.format('%d', wall + ARGV[i + 2]) .. ' ' .. now .. ' ' .. now .. ' ' .. id ..
        ' ' .. now .. ' ' .. me .. ' ' .. ARGV[i + 4])
      if v[1] or v[2] then call('PERSIST', h) end
      reply = now .. ' 0'
    end
  end`

export const fastRelease: string = `
  local h, id, last = KEYS[k], ARGV[i], tonumber(ARGV[i + 1])
  local v = redis.pcall('HMGET', h, 's', 'x')
  local e, t, lt, o = string.match(v[1] or '', '^x 0 0 (%d+) (%d+) (%d+) (%S+)')
  if o == id and tonumber(e) > wall and tonumber(lt) <= wall and last >= tonumber(t) and last <= t + ARGV[3] and
    not (v[2] and string.find(v[2], '~', 1, true)) then
    call('HSET', h, 's', '- 0 0 ' .. e .. ' ' .. ARGV[i + 1] .. ' ' .. lt .. ' - ',
      'x', ' ' .. id .. ' ' .. (v[2] and (string.match(v[2], '^ (%S+ %S+ %S+ )') or string.sub(v[2], 2)) or ''))
    call('PEXPIRE', h, ARGV[4])
    reply = 1
  end`

export const fastRenew: string = `
  local h = KEYS[k]
  local v = redis.pcall('HMGET', h, 's')
  local m, e, t, lt, o, r = string.match(v[1] or '', '^(x . 0 )(%d+)( %d+ )(%d+) (%S+)( .*)$')
  local ttl, order = string.match(ARGV[i + 1], '^([1-9]%d*) ?(%d*)$')
  if o == ARGV[i] and ttl and tonumber(e) > wall and tonumber(lt) <= wall then
    local due = wall + ttl
    local attempt, newest = string.match(order ~= '' and call('HGET', h, 'n') or '', '^(%S+) (%d+)$')
    if order == '' or attempt == o and tonumber(newest) >= tonumber(order) then
      due = math.max(tonumber(e), due)
    else
      call('HSET', h, 'n', o .. ' ' .. order)
    end
    call('HSET', h, 's', m .. string.format('%d', due) .. t .. string.format('%d', wall) .. ' ' .. o .. r)
    reply = 1
  end`
