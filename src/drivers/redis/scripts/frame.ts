/**
 * What runs the items of a script, and the short cuts.
 *
 * The general part is a function that is entered only when an item needs it, because making its closures costs as much as
 * a whole uncontended acquire. Before it stands a short cut for the one case that matters: an exclusive lock nobody else
 * is interested in, on a clock that has not gone back. It does what the general part would do, and leaves `reply` nil
 * for everything else. `differential.test.ts` runs every script with and without it.
 */
export function frame(args: number, fast: string, general: string): string {
  return `local call = redis.call
local tm = call('TIME')
local wall = tm[1] * 1000000 + tm[2]
local clear, me, item = ARGV[1], ARGV[2], nil
local function general()
${general}
return item
end
local k, replies = clear == '' and 1 or 2, {}
for i = 6, #ARGV, ${args} do
  local reply
${fast}
  if reply == nil then
    item = item or general()
    local ok
    ok, reply = pcall(item, KEYS[k], KEYS[k + 1], KEYS[k + 2], unpack(ARGV, i, i + ${args - 1}))
    if not ok then reply = 'e ' .. (type(reply) == 'table' and reply.err or tostring(reply)) end
  end
  replies[#replies + 1] = reply
  k = k + 3
end
return replies
`
}

export const fastAcquire: string = `
  if ARGV[i + 1] == 'x' and (clear == '' or string.find(call('GET', KEYS[1]) or '', clear, 1, true) == 1) then
    local h, id = KEYS[k], ARGV[i]
    local v = redis.pcall('HMGET', h, 's', 'x')
    local t, lt = string.match(v[1] or '- 0 0 0 0 0 ', '^%- 0 0 %d+ (%d+) (%d+) ')
    if t and not v.err and tonumber(t) < wall and tonumber(lt) <= wall and not (v[2] and string.find(v[2], ' ' .. id .. ' ', 1, true)) then
      local now = string.format('%d', wall)
      call('HSET', h, 's', 'x 0 0 ' .. string.format('%d', wall + ARGV[i + 2]) .. ' ' .. now .. ' ' .. now .. ' ' .. id ..
        ' ' .. now .. ' ' .. me .. ' ' .. ARGV[i + 4])
      if v[1] then call('PERSIST', h) end
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
  if o == ARGV[i] and tonumber(e) > wall and tonumber(lt) <= wall then
    call('HSET', h, 's', m .. string.format('%d', wall + ARGV[i + 1]) .. t .. string.format('%d', wall) .. ' ' .. o .. r)
    reply = 1
  end`
