/** etcd's part of the state shared within a driver: leases, and the heartbeat that proves them. */
import type { Env } from '../../core/driver.js'
import { InconclusiveError } from '../kit/failure.js'
import type { LeaseIndex } from '../kit/lease-index.js'
import {
  inBatches,
  type SendHeartbeat,
  type Session,
  type SessionEntry,
  watchedKeys,
} from '../kit/sessions/session.js'
import { type SessionApi, SessionPool } from '../kit/sessions/session-pool.js'
import type { TxnRequest } from './api-types.js'
import { Client } from './client.js'
import { Refusal, toFailure } from './failure.js'
import { type LockKeys, lockKeys } from './keys.js'
import type { Settings } from './options.js'
import { isThere, present } from './transactions.js'

/** A transaction may have 128 operations, unless the cluster is configured otherwise. */
const maxOperations = 100
/** A key that does not exist. With no entries to check, reading it still needs a majority. */
const nothing = ['AA==']

/** A hold, as a user's own transaction needs it. */
export interface GuardedEntry {
  readonly key: string
  /** The create revision of the key. */
  readonly created: number
  /** A comparison was handed out. */
  guarded: boolean
}

export class Runtime extends SessionPool {
  readonly client: Client
  readonly settings: Settings
  /** The entries of the holds, for `guard`. */
  readonly held: LeaseIndex<GuardedEntry>
  /** The tokens of the holds by their key, for repeated claims. */
  readonly tokens: Map<string, number> = new Map()

  constructor(settings: Settings, env: Env, held: LeaseIndex<GuardedEntry>) {
    const client = new Client(settings, env.clock)
    super(createSessionApi(client, settings), env)
    this.client = client
    this.settings = settings
    this.held = held
  }

  lockKeys(name: string): LockKeys {
    return lockKeys(this.settings.prefix, name)
  }

  /** Retries a removing transaction until it is carried out. @param name whose queue it leaves; absent: several */
  clear(ask: TxnRequest, session: Session, interval: number, name?: string): Promise<void> {
    const send = () => this.client.txn(ask)
    const work = () =>
      (name === undefined ? send() : this.waiters.of(name).exit(send)).then(
        () => true,
        (error) => (error instanceof Refusal && error.noSession) || !toFailure(error).transient,
      )
    return this.retryUntilDone(work, session, interval)
  }
}

function createSessionApi(client: Client, settings: Settings): SessionApi {
  return {
    name: 'etcd',
    perLock: settings.ownLeases,
    closeTimeout: settings.requestTimeout,
    heartbeat: createHeartbeat(client),
    // A tenth more than claimed: a proof a few moments old then still covers a whole ttl from now.
    sessionTtl: (ttl) => Math.ceil((ttl * 1.1) / 1000) * 1000,
    create: async (ttl) => {
      const { is, sent } = await client.grantLease(ttl / 1000)
      return { id: is.ID ?? '', ttl: Number(is.TTL ?? 0) * 1000, sent }
    },
    destroy: (id) => client.revokeLease(id),
    close: () => client.close(),
  }
}

/**
 * For many entries, one answer lists the keys bound to the lease. The answer comes from one member without a majority, so it decides nothing:
 * the heartbeat looks for every key that is not listed.
 */
async function keysToCheck(
  client: Client,
  id: string,
  members: readonly SessionEntry[],
  timeout: number,
): Promise<readonly string[]> {
  const keys = watchedKeys(members)
  if (keys.length <= maxOperations) return keys
  const { is } = await client.timeToLive(id, { keys: true }, timeout)
  const bound = new Set(is.keys)
  return keys.filter((key) => !bound.has(key))
}

/**
 * A lease's keepalive alone proves little: a leader answers it by itself, even one that was replaced and does not know it yet.
 * A keepalive therefore counts only together with a read that needs a majority, from the same member in the same term.
 */
function createHeartbeat(client: Client): SendHeartbeat {
  return async (id, members, timeout) => {
    const keys = await keysToCheck(client, id, members, timeout)
    const portions = inBatches(keys.length > 0 ? keys : nothing, maxOperations)
    const { kept, checked } = await client.keepAliveAndRead(id, portions.map(present), timeout)
    const lease = kept.is
    if (lease.header === undefined) throw new InconclusiveError('the reply to a keepalive is empty')
    if (lease.TTL === undefined || Number(lease.TTL) <= 0) return 'ended'
    const gone = new Set<string>()
    for (const [n, { is }] of checked.entries()) {
      if (is.header.raft_term !== lease.header.raft_term) {
        throw new InconclusiveError('the leader changed during a renewal')
      }
      for (const [i, key] of (portions[n] ?? []).entries()) {
        if (!isThere(key, is.responses?.[i]?.response_range)) gone.add(key)
      }
    }
    return { ttl: Number(lease.TTL) * 1000, gone }
  }
}
