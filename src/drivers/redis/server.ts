/**
 * Which server is at the other end, and whether it can be trusted with locks.
 *
 * A lock may be forgotten by a restart without data, by the promotion of a replica that had not got it yet, by FLUSHALL,
 * by eviction. The data themselves notice: every acquire says which server its client knows, and the script compares it
 * with the marker kept among the locks (`scripts/line.ts`, `barred`). So each connection must learn the server's identity
 * before its first acquire, again after every reconnect, and a grant that crossed a reconnect does not count until then.
 *
 * In a Cluster no key can speak for all slots: there the marker is not used. A server that has restarted while this process
 * used the Cluster is known by how long it has been up; against a promotion `replicas` is the protection.
 */
import type { Clock } from '../../core/clock.js'
import { BackendError } from '../../core/errors.js'
import type { Connection } from './client.js'
import type { Settings } from './options.js'

export interface Identity {
  /** Of one life of one server. */
  readonly boot: string
  /** Its wall clock when it started, in µs; 0 when it was promoted since, so that this moment says nothing. */
  readonly since: number
}

export interface Server {
  /** Of the connection it was read from; undefined: unknown, not asked for, or a Cluster. */
  readonly identity: Identity | undefined
  /**
   * Has this process seen the marker before? Then its absence means lost data: `here`, on this very server, at a time
   * nobody knows; `before`, on another one or in another life of it, so not later than this one began.
   */
  readonly marked: 'here' | 'before' | undefined
  /** Resolves when the identity is known for `epoch`; undefined when it is already. @throws what the client throws; BackendError when eviction is refused */
  known(epoch: number): Promise<void> | undefined
  /** An acquire has been answered: the marker is there. */
  answered(): void
  /**
   * Only in a Cluster: for how many ms a server must have been up for its word that it does not know a lock. 0: at once.
   * @param longest the longest ttl in use, in ms
   */
  upFor(longest: number): number
}

export function createServer(connection: Connection, settings: Settings, clock: Clock): Server {
  let identity: Identity | undefined
  let at = -1
  let asking: Promise<void> | undefined
  let markedBy: string | undefined
  let warned = false
  let usedSince: number | undefined

  const ask = async (epoch: number) => {
    const info = await inTime(clock, settings.commandTimeout, readInfo(connection))
    if (info === undefined) {
      warn(
        'HOLDFAST_REDIS_INFO',
        'INFO is not allowed, so restarts and promotions of the server go unnoticed',
      )
    } else {
      checkEviction(info)
      identity = connection.cluster || settings.quarantine === 'off' ? undefined : identityIn(info)
    }
    at = epoch
  }

  const checkEviction = (info: ReadonlyMap<string, string>) => {
    const told = settings.eviction === 'ignore' ? undefined : evictionIn(info)
    if (told === undefined) return
    if (settings.eviction === 'refuse') throw new BackendError('redis', told)
    warn('HOLDFAST_REDIS_EVICTION', told)
  }

  const warn = (code: string, told: string) => {
    if (!warned) process.emitWarning(`holdfast/redis: ${told}`, { code })
    warned = true
  }

  return {
    get identity() {
      return identity
    },
    get marked() {
      if (markedBy === undefined) return undefined
      return markedBy === identity?.boot ? 'here' : 'before'
    },
    known(epoch) {
      if (at === epoch) return undefined
      asking ??= ask(epoch).finally(() => {
        asking = undefined
      })
      return asking
    },
    answered() {
      markedBy = identity?.boot
      usedSince ??= clock.now()
    },
    upFor(longest) {
      if (!connection.cluster || settings.quarantine === 'off') return 0
      const all = longest + 1_000
      if (settings.quarantine === 'strict') return all
      // Servers tell whole seconds.
      const used = usedSince === undefined ? 0 : Math.floor((clock.now() - usedSince) / 1_000) * 1_000
      return Math.min(all, used)
    },
  }
}

/** What is wrong when the server may evict locks in use; undefined when it may not. */
export function evictionIn(info: ReadonlyMap<string, string>): string | undefined {
  const policy = info.get('maxmemory_policy') ?? ''
  if (!policy.startsWith('allkeys') || info.get('maxmemory') === '0') return undefined
  return `maxmemory-policy ${policy} lets the server drop locks in use; set noeviction or a volatile policy`
}

/** What INFO says, by field. */
export function fieldsOf(info: string): ReadonlyMap<string, string> {
  const lines = info.split('\r\n').map((line) => line.split(':', 2))
  return new Map(lines.map(([key = '', value = '']) => [key, value]))
}

/** Undefined when the ACL does not allow it. */
async function readInfo(connection: Connection): Promise<ReadonlyMap<string, string> | undefined> {
  try {
    return fieldsOf(String(await connection.command('INFO')))
  } catch (error) {
    if (error instanceof Error && error.message.startsWith('NOPERM')) return undefined
    throw error
  }
}

function identityIn(info: ReadonlyMap<string, string>): Identity | undefined {
  const run = info.get('run_id')
  if (run === undefined) return undefined
  // A replication history before the present one: it was a replica once in this life.
  const promoted = /[1-9a-f]/.test(info.get('master_replid2') ?? '0')
  const now = Number(info.get('server_time_usec') ?? 0)
  const started = now - Number(info.get('uptime_in_seconds') ?? 0) * 1_000_000
  return { boot: run.slice(0, 16), since: promoted || now === 0 ? 0 : started }
}

/** Gives up after `ms`. An answer that arrived while the event loop stood still is read first. */
export async function inTime<T>(clock: Clock, ms: number, answer: Promise<T>): Promise<T> {
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
