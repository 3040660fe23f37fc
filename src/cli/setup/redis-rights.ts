/** Does this account have the rights the driver needs? */
import type { RedisAddress } from '../redis-place.js'
import { bad, type Check, ok, weak } from './check.js'
import { isAnswer, type RedisConnection } from './redis-open.js'

/** What the scripts and the driver of `redis` and its flavours send; a test compares it with the scripts. */
const lockCommands = [
  'evalsha - 0, time, get KEY, set KEY 1, del KEY, exists KEY, pexpire KEY 1, persist KEY, pttl KEY',
  'hget KEY f, hset KEY f 1, hmget KEY f, hdel KEY f, hincrby KEY f 1',
  'zadd KEY 1 m, zrem KEY m, zremrangebyscore KEY 0 1, zcard KEY, zcount KEY 0 1, zrank KEY m, zscore KEY m',
  'zrange KEY 0 1, zrangebyscore KEY 0 1, zrevrange KEY 0 1, publish CHANNEL -, subscribe CHANNEL',
]
const voteCommands = [
  'evalsha - 0, time, get KEY, mget KEY, set KEY 1, sadd KEY m, smembers KEY, publish CHANNEL -, subscribe CHANNEL',
]

/** Every command that this store must allow, with a key or channel named as the driver would. */
function used({ is, options }: RedisAddress, prefix: string): string[][] {
  if (is === 'redlock') return parse(voteCommands, `${prefix}redlock{doctor}`, `${prefix}redlock:doctor`)
  const channel = `${prefix}c:doctor`
  return [
    ...parse(lockCommands, `${prefix}{doctor}`, channel),
    ...inOneServer(is, channel),
    // Only to list names.
    ['scan', '0'],
    ...((options.replicas ?? 0) > 0 ? [['wait', '1', '1']] : []),
  ]
}

function parse(lines: readonly string[], key: string, channel: string): string[][] {
  const names: Readonly<Record<string, string>> = { KEY: key, CHANNEL: channel }
  const commands = lines.flatMap((line) => line.split(', '))
  return commands.map((command) => command.split(' ').map((word) => names[word] ?? word))
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

/** Commands that locks work without, and what is missing then. */
const spared: ReadonlyMap<string, string> = new Map([
  ['subscribe', 'waiters poll instead of being notified'],
  ['publish', 'waiters poll instead of being notified'],
  ['scan', 'holdfast ls, top and ui, and locks.list(), are refused'],
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
