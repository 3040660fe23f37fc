/** Facts one Redis server reports about itself and this account. */
import type { RedisPlace } from '../redis-place.js'
import { midway } from './clock.js'
import { type Asker, isAnswer } from './redis-open.js'
import { deniedTo } from './redis-rights.js'
import { type SlotMarker, slotMarkers } from './redis-slots.js'

export interface NodeFacts {
  /** By field; undefined: this account may not run INFO. */
  readonly info: ReadonlyMap<string, string> | undefined
  /** By setting; a missing one was not reported. */
  readonly config: ReadonlyMap<string, string>
  /** How far its clock is ahead of this machine's, in ms. */
  readonly ahead: number
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
  readonly barredFor: number
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
]

/** @throws the client's error if the server does not answer or refuses the login; Error for a Sentinel, which stores no data */
export async function askNode(asker: Asker, place: RedisPlace): Promise<NodeFacts> {
  const prefix = place.options.prefix ?? 'hf:'
  const said = await allowed(asker.call('INFO', 'everything'))
  const info = said === undefined ? undefined : fieldsOf(String(said))
  if (modeOf(info) === 'sentinel') throw new Error('a Sentinel has no data')
  const { answer: time, middle } = await midway(() => allowed(asker.call('TIME')))
  const config = await Promise.all(settings.map((name) => allowed(asker.call('CONFIG', 'GET', name))))
  const now = timeOf(time) ?? middle
  const ask = (command: string, ...args: string[]) => allowed(asker.call(command, ...args))
  return {
    info,
    config: new Map(
      config.flatMap((reply) =>
        Array.isArray(reply) && reply.length === 2 ? [reply as [string, string]] : [],
      ),
    ),
    ahead: now - middle,
    denied: await deniedTo(asker, place, prefix),
    marker: markerOf(await ask('GET', `${prefix}boot`), now),
    slotMarkers: place.is === 'cluster' ? await slotMarkers(ask, prefix, now) : [],
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

function fieldsOf(info: string): ReadonlyMap<string, string> {
  return new Map(
    info.split('\r\n').map((line) => {
      const at = line.indexOf(':')
      return [line.slice(0, Math.max(0, at)), line.slice(at + 1)] as const
    }),
  )
}

/** `standalone`, `cluster` or `sentinel`. */
export function modeOf(info: ReadonlyMap<string, string> | undefined): string | undefined {
  return info?.get('redis_mode') ?? info?.get('server_mode')
}

/** In ms since 1970. */
function timeOf(reply: unknown): number | undefined {
  if (!Array.isArray(reply)) return undefined
  return Number(reply[0]) * 1_000 + Number(reply[1]) / 1_000
}

function markerOf(reply: unknown, now: number): NodeFacts['marker'] {
  if (reply === 'new') return 'new'
  const [, till, boot = '', sure] = /^(\d+) (\S+) \S+ \d+ (\d)$/.exec(String(reply ?? '')) ?? []
  if (till === undefined) return undefined
  // In µs.
  return { barredFor: Math.max(0, Number(till) / 1_000 - now), boot, sure: sure === '1' }
}
