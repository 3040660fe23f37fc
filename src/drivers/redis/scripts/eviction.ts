/**
 * The part of the script for acquiring that refuses, in a Cluster, a node that may evict locks in use.
 *
 * A client does not know which node its request reaches, and a slot may have moved since any of them was asked. So the node that would grant
 * the lock is looked at when it does, for as long as ARGV[5] ends with `e`: with `eviction: 'refuse'`. An account that may not run INFO
 * is not refused, as on a single server.
 */

/** In Lua: `reply` is the refusal, if there is one. */
export const evictionBar: string = `
  if string.sub(ARGV[5], -2) == ' e' then
    local info = redis.pcall('INFO', 'memory')
    local policy = type(info) == 'string' and string.match(info, '\\nmaxmemory_policy:(allkeys[%w-]*)')
    if policy and not string.find(info, '\\nmaxmemory:0%s') then reply = 'e EVICTS ' .. policy end
  end`
