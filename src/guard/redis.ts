/** The token in Redis or Valkey: compared, stored and acted on in one script, so that no pause fits in between. */
import { StaleTokenError } from '../core/errors.js'
import { describe } from '../core/name.js'
import { checkFence, checkKey, type Fence, tokenFrom } from './fence.js'
import { isRedisAnswer, reportUnknown } from './outcome.js'
import { runFenced } from './scripts.js'

/** A client of ioredis, or of node-redis 5 and later; standalone or Cluster. */
export type RedisGuardClient = IoredisLike | NodeRedisLike
export interface IoredisLike {
  call(command: string, ...args: string[]): Promise<unknown>
}
export interface NodeRedisLike {
  eval(script: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>
}

export interface GuardedCommands {
  readonly fence: Fence
  /**
   * The key that keeps the newest token, beside what it protects and living as long: one that expires or is evicted
   * forgets. In a Cluster it must share the slot of the other keys: `fenceKey(key)`.
   */
  readonly fenceKey: string
  /** Every other key that the commands touch. */
  readonly keys: readonly string[]
  /** Run in order, without anything in between; when one fails, those before it stay done, as always in Redis. */
  readonly commands: readonly (readonly (string | number)[])[]
}

/**
 * Runs commands unless the fence key has seen a newer token. Resolves with their replies.
 * @throws StaleTokenError when a newer token was there, and then nothing was run; LeaseLostError; BackendError with `outcome:
 * 'unknown'` when the reply was lost, so that they may or may not have run; what the server answers
 */
export async function guardedCommands(
  client: RedisGuardClient,
  { fence, fenceKey, keys, commands }: GuardedCommands,
): Promise<unknown[]> {
  if (commands.length === 0) throw new RangeError('guardedCommands needs at least one command, got none')
  checkKey(fenceKey, 'fenceKey')
  for (const [at, key] of keys.entries())
    if (typeof key !== 'string') throw new TypeError(`key ${at + 1} must be a string, got ${describe(key)}`)
  if (keys.includes(fenceKey))
    throw new RangeError(`keys has the fence key ${describe(fenceKey)}: the guard itself writes it`)
  const words = commands.flatMap((command, at) => [
    String(command.length),
    ...command.map((word) => toWord(word, `a word of command ${at + 1}`)),
  ])
  return fenced(client, fence, [fenceKey, ...keys], [fenceKey, ...words])
}

/** The token alone, for fences: refused or remembered. */
export async function admitToken(client: RedisGuardClient, fence: Fence, fenceKey: string): Promise<void> {
  await fenced(client, fence, [fenceKey], [''])
}

/** @param args of `runFenced`, after the token */
async function fenced(
  client: RedisGuardClient,
  fence: Fence,
  keys: readonly string[],
  args: readonly string[],
): Promise<unknown[]> {
  checkFence(fence)
  const what = `the write under ${describe(keys[0])} with token ${fence.token}`
  const [done, ...replies] = await reportUnknown('redis', what, isRedisAnswer, () =>
    evaluate(client, keys, [String(fence.token), ...args]),
  )
  if (Number(done) === 1) return replies
  if (Number(done) === 2)
    throw new TypeError(
      `guardedCommands: the client writes ${describe(String(replies[0]))} where ${describe(keys[0])} was asked for (keyPrefix?), but cannot tell the keys among the words of a command; give a client that changes no keys, and keys in full`,
    )
  throw new StaleTokenError(fence.name, fence.token, tokenFrom(replies[0], describe(keys[0])))
}

/** `String` would write "undefined", "NaN" or "[object Object]" over what is there. @throws TypeError, RangeError before anything is sent */
function toWord(value: unknown, what: string): string {
  if (typeof value === 'string') return value
  if (typeof value === 'bigint' || (typeof value === 'number' && Number.isFinite(value))) return String(value)
  if (typeof value === 'number')
    throw new RangeError(`${what} is ${value}; Redis would keep the text "${value}": give a finite number`)
  throw new TypeError(
    `${what} is ${describe(value)}; Redis keeps text: give a string or a number, such as JSON.stringify(value)`,
  )
}

export interface GuardedValue {
  readonly key: string
  readonly value: string | number
  readonly fence: Fence
  /** @default fenceKey(key) */
  readonly fenceKey?: string
}

/** `SET`, unless the fence key has seen a newer token. Throws as `guardedCommands`. */
export async function guardedSet(
  client: RedisGuardClient,
  { key, value, fence, fenceKey: beside = fenceKey(key) }: GuardedValue,
): Promise<void> {
  if (typeof key !== 'string') throw new TypeError(`key must be a string, got ${describe(key)}`)
  checkKey(beside, 'fenceKey')
  if (key === beside) throw new RangeError(`${describe(key)} cannot keep both the value and its fence`)
  await fenced(client, fence, [beside, key], ['', 'SET', toWord(value, 'value')])
}

/**
 * A key for the token that shares the slot of `key` in a Cluster; different keys have different fence keys, and a
 * fence key has none itself. @throws RangeError for such a key, and for one whose braces leave no room
 */
export function fenceKey(key: string): string {
  if (typeof key !== 'string') throw new TypeError(`key must be a string, got ${describe(key)}`)
  if (/^fence:.*\{[^}]+\}|^\{[^}]*\}:fence$/s.test(key))
    throw new RangeError(
      `${describe(key)} is named as the fence of another key; anyone who writes it could let stale tokens in`,
    )
  if (/^[^{]*\{[^}]+\}/.test(key)) return `fence:${key}`
  if (!key.includes('}') && key !== '') return `{${key}}:fence`
  throw new RangeError(`no fence key shares the slot of ${describe(key)}; give fenceKey yourself`)
}

async function evaluate(
  client: RedisGuardClient,
  keys: readonly string[],
  args: readonly string[],
): Promise<unknown[]> {
  const reply =
    'call' in client && typeof client.call === 'function'
      ? client.call('EVAL', runFenced, String(keys.length), ...keys, ...args)
      : (client as NodeRedisLike).eval(runFenced, { keys: [...keys], arguments: [...args] })
  return (await reply) as unknown[]
}
