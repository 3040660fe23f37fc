/** The token in Redis or Valkey: compared, stored and acted on in one script, so that no pause fits in between. */
import { StaleTokenError } from '../core/errors.js'
import { describe } from '../core/name.js'
import { checkFence, type Fence, tokenFrom } from './fence.js'
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
   * The key that keeps the newest token, beside what it protects and living as long: one that expires or is evicted forgets.
   * In a Cluster it must share the slot of the others: `fenceKey(key)`.
   */
  readonly fenceKey: string
  /** Every other key that the commands touch. */
  readonly keys: readonly string[]
  /** Run in order, without anything in between; one that fails leaves those before it done, as always in Redis. */
  readonly commands: readonly (readonly (string | number)[])[]
}

/**
 * Runs commands unless a newer token has been there. Resolves with their replies.
 * @throws StaleTokenError when a newer token was there, and then nothing was run; LeaseLostError; what the client throws
 */
export async function guardedCommands(
  client: RedisGuardClient,
  { fence, fenceKey, keys, commands }: GuardedCommands,
): Promise<unknown[]> {
  checkFence(fence)
  if (commands.length === 0) throw new RangeError('guardedCommands needs at least one command, got none')
  const words = commands.flatMap((command) => [command.length, ...command].map(String))
  const [done, ...replies] = await evaluate(client, [fenceKey, ...keys], [String(fence.token), ...words])
  if (Number(done) === 1) return replies
  throw new StaleTokenError(fence.name, fence.token, tokenFrom(replies[0]))
}

export interface GuardedValue {
  readonly key: string
  readonly value: string | number
  readonly fence: Fence
  /** @default fenceKey(key) */
  readonly fenceKey?: string
}

/** `SET`, unless a newer token has been there. Throws as `guardedCommands`. */
export async function guardedSet(
  client: RedisGuardClient,
  { key, value, fence, fenceKey: beside = fenceKey(key) }: GuardedValue,
): Promise<void> {
  await guardedCommands(client, { fence, fenceKey: beside, keys: [key], commands: [['SET', key, value]] })
}

/** A key for the token that shares the slot of `key` in a Cluster. @throws RangeError for a key whose braces leave no room */
export function fenceKey(key: string): string {
  if (/\{[^}]+\}/.test(key) && /^[^{]*\{[^}]/.test(key)) return `${key}:fence`
  if (!key.includes('}') && key !== '') return `{${key}}:fence`
  throw new RangeError(`no fence key shares the slot of ${describe(key)}; give fenceKey yourself`)
}

async function evaluate(client: RedisGuardClient, keys: string[], args: string[]): Promise<unknown[]> {
  const reply =
    'call' in client && typeof client.call === 'function'
      ? client.call('EVAL', runFenced, String(keys.length), ...keys, ...args)
      : (client as NodeRedisLike).eval(runFenced, { keys, arguments: args })
  return (await reply) as unknown[]
}
