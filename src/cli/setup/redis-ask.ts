/** Facts one Redis server reports about itself and this account. */
import type { RedisAddress } from '../redis-place.js'
import { midway } from './clock.js'
import { isAnswer, type RedisConnection } from './redis-open.js'
import { deniedTo } from './redis-rights.js'
import { type SlotMarker, slotMarkers } from './redis-slots.js'

export interface NodeFacts {
  /** By field; undefined: this account may not run INFO. */
  readonly info: ReadonlyMap<string, string> | undefined
  /** By setting; a missing one was not reported. */
  readonly config: ReadonlyMap<string, string>
  /** How far its clock is ahead of this machine's, in ms. */
  readonly ahead: number
  /** The server's words about the database of the URL; undefined: it has it. */
  readonly refusedDatabase: string | undefined
  /** Commands this account may not run; undefined: it may not even run scripts. */
  readonly denied: readonly string[] | undefined
  /** The stored marker of the server life that last granted locks; `new`: an operator declared the server new. Undefined: none. */
  readonly marker: Marker | 'new' | undefined
  /** Of a node of a Cluster, instead. */
  readonly slotMarkers: readonly SlotMarker[]
}

/** As `src/drivers/redis/scripts/server-marker.ts` writes it. */
export interface Marker {
  /** How long nothing is granted from now on, in ms. */
  readonly quarantinedFor: number
  /** Starts with the beginning of the server's `run_id`. */
  readonly boot: string
  /** That server life lost nothing at its end. */
  readonly sure: boolean
}

const settings = [
  'appendfsync',
  'no-appendfsync-on-rewrite',
  'save',
  'min-replicas-to-write',
  'repl-backlog-ttl',
  'databases',
]

/** @throws the client's error if the server does not answer or refuses the login; Error for a Sentinel, which stores no data */
export async function askNode(connection: RedisConnection, address: RedisAddress): Promise<NodeFacts> {
  const prefix = address.options.prefix ?? 'hf:'
  const reply = await allowed(connection.call('INFO', 'everything'))
  const info = reply === undefined ? undefined : parseInfo(String(reply))
  if (findMode(info) === 'sentinel') throw new Error('a Sentinel has no data')
  const refusedDatabase = await selectRefused(connection, address.database)
  const { answer: time, middle } = await midway(() => allowed(connection.call('TIME')))
  const config = await Promise.all(settings.map((name) => allowed(connection.call('CONFIG', 'GET', name))))
  const now = parseTime(time) ?? middle
  const ask = (command: string, ...args: string[]) => allowed(connection.call(command, ...args))
  return {
    info,
    config: new Map(
      config.flatMap((reply) =>
        Array.isArray(reply) && reply.length === 2 ? [reply as [string, string]] : [],
      ),
    ),
    ahead: now - middle,
    refusedDatabase,
    denied: await deniedTo(connection, address, prefix),
    marker: parseMarker(await ask('GET', `${prefix}boot`), now),
    slotMarkers: address.is === 'cluster' ? await slotMarkers(ask, prefix, now) : [],
  }
}

/** Selects the database. @returns the server's error, if it refused */
async function selectRefused(connection: RedisConnection, database: number): Promise<string | undefined> {
  if (database === 0) return undefined
  try {
    await connection.call('SELECT', String(database))
    return undefined
  } catch (error) {
    if (!isAnswer(error)) throw error
    return (error as Error).message
  }
}

/** Undefined: the account lacks the right. */
async function allowed(answer: Promise<unknown>): Promise<unknown> {
  try {
    return await answer
  } catch (error) {
    // Some Redis hosting services have removed CONFIG entirely.
    if (isAnswer(error) && /^(?:NOPERM|ERR unknown command|MOVED|CROSSSLOT)/.test((error as Error).message))
      return undefined
    throw error
  }
}

function parseInfo(info: string): ReadonlyMap<string, string> {
  return new Map(
    info.split('\r\n').map((line) => {
      const at = line.indexOf(':')
      return [line.slice(0, Math.max(0, at)), line.slice(at + 1)] as const
    }),
  )
}

/** `standalone`, `cluster` or `sentinel`. */
export function findMode(info: ReadonlyMap<string, string> | undefined): string | undefined {
  return info?.get('redis_mode') ?? info?.get('server_mode')
}

/** In ms since 1970. */
function parseTime(reply: unknown): number | undefined {
  if (!Array.isArray(reply)) return undefined
  return Number(reply[0]) * 1_000 + Number(reply[1]) / 1_000
}

function parseMarker(reply: unknown, now: number): NodeFacts['marker'] {
  if (reply === 'new') return 'new'
  const [, till, boot = '', sure] = /^(\d+) (\S+) \S+ \d+ (\d)$/.exec(String(reply ?? '')) ?? []
  if (till === undefined) return undefined
  // In µs.
  return { quarantinedFor: Math.max(0, Number(till) / 1_000 - now), boot, sure: sure === '1' }
}
