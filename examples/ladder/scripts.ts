/** The Lua of the locks by hand and of the guarded resource. */

/** KEYS: the lock. ARGV: 1 id of the attempt. Result: 1 it was ours and is gone, 0 it was not ours. */
export const deleteIfMine = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
`

/** KEYS: the lock. ARGV: 1 id of the attempt · 2 ttl in ms. Result: 1 it is ours for that long again, 0 it is not ours. */
export const extendIfMine = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0
`

/** KEYS: the lock. ARGV: 1 id of the attempt. As deleteIfMine, and tells everybody who listens to the channel named like the key. */
export const deleteAndTell = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', KEYS[1], 'free')
return 1
`

/**
 * The resource's side of a fencing token. KEYS: a hash with `value` and `fence`. ARGV: 1 new value · 2 token.
 * Result: 1 written, 0 refused, because a greater token has been seen.
 */
export const writeIfNewer = `
if tonumber(redis.call('HGET', KEYS[1], 'fence') or '0') > tonumber(ARGV[2]) then return 0 end
redis.call('HSET', KEYS[1], 'value', ARGV[1], 'fence', ARGV[2])
return 1
`
