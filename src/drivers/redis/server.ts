/**
 * The identity of the connected server, and whether it can be trusted with locks.
 *
 * A server may lose a lock in a restart without data, in the promotion of a replica that had not received it yet, by FLUSHALL, or
 * by eviction. A marker among the locks reveals that: the client identifies the server before its first acquire, after every reconnect,
 * and whenever a script finds another marker (`scripts/server-marker.ts`). Every acquire carries the identity that was found and compares it
 * with the marker, and a grant that crossed a reconnect does not count.
 *
 * In a Cluster no key can speak for all slots, and no client knows which node it reaches. There the scripts do it all: `scripts/slot-marker.ts`.
 * Long because everything that makes a server known, or no longer known, is in one file.
 */
import type { Clock } from '../../core/clock.js'
import type { Connection } from './client.js'
import { createEvictionCheck, parseInfo } from './eviction.js'
import { NoInfoError } from './failure.js'
import { bootKey } from './keys.js'
import type { Settings } from './options.js'
import { GarbledReply, isReply, toInfo } from './reply-shapes.js'
import { meet } from './scripts/server-marker.js'

export interface Identity {
  /** Identifies one life of one server: the beginning of its run_id, and more if it was promoted (`scripts/server-marker.ts`). */
  readonly boot: string
  /** Identifies its data: other data have another lineage, as do data deleted and begun again. */
  readonly lineage: string
}

export interface Server {
  /** The identity read from the connection; undefined: unknown, not asked for, or a Cluster. */
  readonly identity: Identity | undefined
  /** The longest ttl known to be in use on this server, in ms. */
  readonly maxTtl: number
  /**
   * Resolves when the server has been met in `epoch`; undefined when it has been met already.
   * @throws what the client throws; BackendError when the option `eviction` refuses the server, or INFO is not allowed
   */
  known(epoch: number): Promise<void> | undefined
  /**
   * Like `known`, for a renewal or a check of a hold: the server itself shows whether it still has that, so an account that has lost the
   * right to INFO may ask. Not where only INFO shows that the connection leads to the present master.
   */
  reached(epoch: number): Promise<void> | undefined
  /** The server is not the one that was met: it must be met again. */
  changed(): void
  /** The server replied at clock reading `now`. @returns was it silent before for so long that another may have become the master meanwhile? */
  isCurrent(now: number): boolean
}

/** How long a client is left alone after it was made to reconnect, in ms. */
const settling = 1_000

/**
 * @param id prefix of the lineages that this process creates
 * @param replaced called when the connection leads to a server that is no longer the master
 */
export function createServer(
  connection: Connection,
  settings: Settings,
  clock: Clock,
  id: string,
  replaced: () => void,
): Server {
  let identity: Identity | undefined
  let longest = settings.maxTtl
  let at = -1
  let asking: Promise<void> | undefined
  const look = createEvictionCheck(connection, settings.eviction)
  let heardAt = Number.NEGATIVE_INFINITY
  let movedAt = Number.NEGATIVE_INFINITY
  const marked = !connection.cluster && settings.quarantine !== 'off'

  /** Pause and wait for the reply count together: one cannot know whether the server hung at the end of the pause or after it. */
  const wasSilent = () => connection.isSticky === true && clock.now() - heardAt >= settings.commandTimeout / 2

  const ask = async (epoch: number) => {
    let silent = true
    const meeting = Promise.all([
      marked ? meetIt('?') : undefined,
      settings.eviction === 'ignore' ? undefined : look(),
    ]).finally(() => {
      silent = false
    })
    const [metIdentity] = await withinTime(clock, settings.commandTimeout, meeting).catch(async (error) => {
      // A frozen server may have been replaced, and the client would stay with it.
      if (silent && identity !== undefined && connection.isSticky) await confirm(identity)
      throw error
    })
    if (metIdentity !== undefined && connection.isSticky) await confirm(metIdentity)
    identity = metIdentity
    at = epoch
    heardAt = clock.now()
  }

  /**
   * Asks the Sentinels, over a new connection, which server is the master now: the connection in use may lead to a server that was
   * suspended while another replaced it, and that has just resumed. It takes itself for the master until the Sentinels demote it, which
   * they put off for half a minute after they were paused themselves (TILT). So the client is made to look up the master again.
   */
  const confirm = async ({ boot }: Identity) => {
    const fresh = connection.duplicate()
    try {
      const info = await withinTime(clock, settings.commandTimeout, fresh.command('INFO', 'server'))
      if (parseInfo(toInfo(info)).get('run_id')?.startsWith(boot.slice(0, 16))) return
    } finally {
      fresh.close()
    }
    // A Sentinel that lags behind may lead the client back to the same server: not again and again at once.
    if (clock.now() >= movedAt + settling) {
      movedAt = clock.now()
      connection.reconnect?.()
      replaced()
    }
    throw new Error('the client is still connected to a server that is no longer the master')
  }

  const meetIt = async (synced: '?' | '0' | '1'): Promise<Identity> => {
    const { lineage = '-', boot: life = '-' } = identity ?? {}
    const strict = settings.quarantine === 'strict' ? '1' : '0'
    const args = [lineage, life, String(longest * 1_000), id, strict, synced]
    const reply = await connection.run('EVAL', meet.text, [bootKey(settings.prefix)], args)
    if (!isReply(meet.name, reply, [])) throw new GarbledReply('EVAL (meet)', reply)
    if (reply === 'aof') return meetIt((await isDurable(connection)) ? '1' : '0')
    if (!Array.isArray(reply)) throw new NoInfoError()
    longest = Math.max(longest, Math.ceil(Number(reply[2]) / 1_000))
    return { boot: String(reply[0]), lineage: String(reply[1]) }
  }

  const known = (epoch: number) => {
    // The reply to the next request may come from a server that has been replaced.
    if (at === epoch && !wasSilent()) return undefined
    asking ??= ask(epoch).finally(() => {
      asking = undefined
    })
    return asking
  }

  return {
    get identity() {
      return identity
    },
    get maxTtl() {
      return longest
    },
    known,
    reached: (epoch) =>
      known(epoch)?.catch((error) => {
        if (connection.isSticky || !(error instanceof NoInfoError)) throw error
      }),
    changed() {
      at = -1
    },
    isCurrent(now) {
      const silent = wasSilent()
      heardAt = now
      return silent
    },
  }
}

/** Does the server sync every write to disk before it replies? False when CONFIG is not allowed. */
async function isDurable(connection: Connection): Promise<boolean> {
  const settings = await Promise.all(
    ['appendfsync', 'no-appendfsync-on-rewrite'].map((name) => connection.command('CONFIG', 'GET', name)),
  ).catch(() => [])
  const [sync, paused] = settings.map((reply) => (Array.isArray(reply) ? String(reply[1]) : ''))
  return sync === 'always' && paused === 'no'
}

/** Fails after `ms`. An answer that arrived while the event loop was blocked is read first. */
export async function withinTime<T>(clock: Clock, ms: number, answer: Promise<T>): Promise<T> {
  let stop = () => {}
  const late = new Promise<never>((_, reject) => {
    const silent = () => reject(new Error(`no answer within ${ms} ms`))
    stop = clock.at(clock.now() + ms, () => clock.soon(silent), { ref: false })
  })
  try {
    return await Promise.race([answer, late])
  } finally {
    stop()
  }
}
