/** Does this account have the rights the driver needs? */
import type { RedisAddress } from '../redis-place.js'
import { bad, type Check, ok, weak } from './check.js'
import { isAnswer, type RedisConnection } from './redis-open.js'

/** Every command of the scripts and of the driver; a test compares them with the scripts. */
function used({ is, options }: RedisAddress, prefix: string): string[][] {
  const always = [['evalsha', '', '0'], ['time']]
  if (is === 'redlock') {
    const [key, channel] = [`${prefix}redlock{doctor}`, `${prefix}redlock:doctor`]
    return [
      ...[...always, ['get', key], ['mget', key], ['set', key, '1'], ['sadd', key, 'm'], ['smembers', key]],
      ...[
        ['publish', channel, ''],
        ['subscribe', channel],
      ],
    ]
  }
  const [key, channel] = [`${prefix}{doctor}`, `${prefix}c:doctor`]
  return [
    ...[...always, ['get', key], ['set', key, '1'], ['del', key], ['exists', key]],
    ...[
      ['pexpire', key, '1'],
      ['persist', key],
      ['pttl', key],
      ['hget', key, 'f'],
    ],
    ...[
      ['hset', key, 'f', '1'],
      ['hmget', key, 'f'],
      ['hdel', key, 'f'],
      ['hincrby', key, 'f', '1'],
    ],
    ...[
      ['zadd', key, '1', 'm'],
      ['zrem', key, 'm'],
      ['zremrangebyscore', key, '0', '1'],
      ['zcard', key],
    ],
    ...[
      ['zcount', key, '0', '1'],
      ['zrange', key, '0', '1'],
      ['zrangebyscore', key, '0', '1'],
    ],
    ...[
      ['zrevrange', key, '0', '1'],
      ['zrank', key, 'm'],
      ['zscore', key, 'm'],
    ],
    ...[['publish', channel, ''], ['subscribe', channel], ...inOneServer(is, channel)],
    ...((options.replicas ?? 0) > 0 ? [['wait', '1', '1']] : []),
  ]
}

/** A node of a Cluster is asked for the others, and knows not all subscribers of a channel. */
const inOneServer = (is: RedisAddress['is'], channel: string) =>
  is === 'cluster' ? [['cluster', 'nodes']] : [['pubsub', 'numsub', channel]]

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
  const words = JSON.stringify(used(address, prefix))
  try {
    const denied = await connection.call('EVAL', probe, '0', words)
    return Array.isArray(denied) ? denied.map(String) : []
  } catch (error) {
    if (isAnswer(error) && (error as Error).message.startsWith('NOPERM')) return undefined
    throw error
  }
}

/** Commands that locks work without, and what becomes of their waiters. */
const spared: ReadonlyMap<string, string> = new Map([
  ['subscribe', 'waiters poll instead of being notified'],
  ['publish', 'waiters poll instead of being notified'],
  ['pubsub', 'a dead waiter is not recognised and delays those behind it'],
])

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
  const needed = denied.filter((name) => !spared.has(name))
  const allow = `ACL SETUSER <user> ${denied.map((name) => `+${name}`).join(' ')}, and ~<prefix>* &<prefix>*`
  if (needed.length > 0) return bad(what, `this account may not ${denied.join(', ')}`, 'locks fail', allow)
  if (denied.length > 0) {
    const becomes = [...new Set(denied.map((name) => spared.get(name)))].join('; ')
    return weak(what, `this account may not ${denied.join(', ')}`, `locks work; ${becomes}`, allow)
  }
  return ok(what, 'this account may do what the driver does')
}
