/** Does this account have the rights the driver needs? */
import type { RedisAddress } from '../redis-place.js'
import { bad, type Check, ok, weak } from './check.js'
import { isAnswer, type RedisConnection } from './redis-open.js'

/** The commands of the scripts and the driver: one of each kind, with a key or channel named as the driver would. */
const used = (key: string, channel: string, { options }: RedisAddress): string[][] => [
  ['get', key],
  ['set', key, '1'],
  ['del', key],
  ['hset', key, 'f', '1'],
  ['hmget', key, 'f'],
  ['hdel', key, 'f'],
  ['zadd', key, '1', 'm'],
  ['zrange', key, '0', '1'],
  ['zrem', key, 'm'],
  ['pexpire', key, '1'],
  ['time'],
  ['publish', channel, ''],
  ['subscribe', channel],
  ...((options.replicas ?? 0) > 0 ? [['wait', '1', '1']] : []),
]

/** Asks the server whether the account could run them; runs none. */
const probe = `local denied = {}
for _, words in ipairs(cjson.decode(ARGV[1])) do
  if not redis.acl_check_cmd(unpack(words)) then denied[#denied + 1] = words[1] end
end
return denied`

/** The driver's commands that this account may not run; undefined: it may not even run scripts. */
export async function deniedTo(
  connection: RedisConnection,
  address: RedisAddress,
  prefix: string,
): Promise<readonly string[] | undefined> {
  const key = `${prefix}{doctor}`
  const words = JSON.stringify(used(key, `${prefix}c:doctor`, address))
  try {
    const denied = await connection.call('EVAL', probe, '0', words)
    return Array.isArray(denied) ? denied.map(String) : []
  } catch (error) {
    if (isAnswer(error) && (error as Error).message.startsWith('NOPERM')) return undefined
    throw error
  }
}

/** Without these, a waiter polls instead of being notified. */
const channels: ReadonlySet<string> = new Set(['subscribe', 'publish'])

/** @param denied undefined: the account may not even run scripts */
export function rightsCheck(denied: readonly string[] | undefined): Check {
  const what = 'rights'
  if (denied === undefined)
    return bad(
      what,
      'this account may not run scripts',
      'every lock fails',
      'ACL SETUSER <user> +eval +evalsha',
    )
  const keys = denied.filter((name) => !channels.has(name))
  const allow = `ACL SETUSER <user> ${denied.map((name) => `+${name}`).join(' ')}, and ~<prefix>* &<prefix>*`
  if (keys.length > 0) return bad(what, `this account may not ${denied.join(', ')}`, 'locks fail', allow)
  if (denied.length > 0) {
    const means = 'locks work; waiters poll instead of being notified'
    return weak(what, `this account may not ${denied.join(', ')}`, means, allow)
  }
  return ok(what, 'this account may do what the driver does')
}
