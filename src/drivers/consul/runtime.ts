/** Consul's part of the state shared within a driver: sessions, and the heartbeat that proves them. */
import type { Env } from '../../core/driver.js'
import type { LeaseIndex } from '../kit/lease-index.js'
import { inBatches, type SendHeartbeat, type Session, watchedKeys } from '../kit/sessions/session.js'
import { type SessionApi, SessionPool } from '../kit/sessions/session-pool.js'
import type { KeyValue, Operation } from './api-types.js'
import { Client } from './client.js'
import { Refusal, toFailure } from './failure.js'
import { type LockKeys, lockKeys } from './keys.js'
import { maxTtl, type Settings } from './options.js'
import { reads } from './transactions.js'

/** Operations per transaction; Consul allows 64. */
const maxOperations = 60

/** A hold, as the condition of a user's own transaction. */
export interface LeaseCondition {
  readonly condition: Operation
  /** Resolves once no move to another session, which changes the condition, is in flight. */
  settled(): Promise<unknown>
}

export class Runtime extends SessionPool {
  readonly client: Client
  readonly settings: Settings
  /** The holds, for `guard`. */
  readonly held: LeaseIndex<LeaseCondition>

  constructor(settings: Settings, env: Env, held: LeaseIndex<LeaseCondition>) {
    const client = new Client(settings, env.clock)
    super(createSessionApi(client, settings, env), env)
    this.client = client
    this.settings = settings
    this.held = held
  }

  lockKeys(name: string): LockKeys {
    return lockKeys(this.settings.prefix, name)
  }

  /** Creates a session that ends by itself, `keep` ms from now or later, with the keys that it keeps. @returns its id */
  async createRetentionSession(keep: number): Promise<string> {
    const { env, settings } = this
    const ttl = Math.min(maxTtl, Math.max(settings.minTtl, Math.ceil(keep)))
    const { id } = await this.client.createSession(sessionBody(env.client, ttl, 0))
    return id
  }

  /** Retries a removing transaction until it is carried out. @param name whose queue it leaves; absent: several */
  clear(operations: readonly Operation[], session: Session, interval: number, name?: string): Promise<void> {
    const send = () => this.client.txn(operations)
    const work = () =>
      (name === undefined ? send() : this.waiters.of(name).exit(send)).then(
        () => true,
        (error) => (error instanceof Refusal && error.noSession) || !toFailure(error).transient,
      )
    return this.retryUntilDone(work, session, interval)
  }
}

function sessionBody(by: string, ttl: number, lockDelay: number): object {
  return {
    Name: `holdfast ${by}`,
    TTL: `${ttl}ms`,
    LockDelay: `${lockDelay}ms`,
    Behavior: 'delete',
    // By default a session ends when gossip declares its node failed: one slow agent would lose all its locks.
    NodeChecks: [],
    Checks: [],
  }
}

function createSessionApi(client: Client, settings: Settings, env: Env): SessionApi {
  return {
    name: 'consul',
    perLock: settings.ownSessions,
    closeTimeout: settings.requestTimeout,
    heartbeat: createHeartbeat(client),
    // A tenth more than claimed: a proof a few moments old then still covers a whole ttl from now.
    sessionTtl: (ttl) => Math.min(maxTtl, Math.max(settings.minTtl, Math.ceil(ttl * 1.1))),
    create: async (ttl) => {
      return { ttl, ...(await client.createSession(sessionBody(env.client, ttl, settings.lockDelay))) }
    },
    destroy: (id) => client.destroySession(id),
    close: () => client.close(),
  }
}

/** The key under which the heartbeat checks a hold of the lock itself: it counts as present while no client has written to the lock since. */
export const lockMember = (key: string, index: number): string => `${key}\nModifyIndex ${index}`

/**
 * The same for an entry that others wait for: it counts as present while it is the one created at this index. A claim whose entry was removed
 * enters again with the same key, behind those that waited for the first one.
 */
export const entryMember = (key: string, created: number): string => `${key}\nCreateIndex ${created}`

/** The leader answers a renewal by itself. It therefore counts only together with a read, for which the leader asks a majority. */
function createHeartbeat(client: Client): SendHeartbeat {
  return async (id, members, timeout) => {
    const keys = watchedKeys(members)
    const portions = inBatches(keys, maxOperations).map((portion) => reads(portion.map(plainKey)))
    // With no entries to check, a read must still ask a majority.
    const reply = await client.renewAndRead(id, portions.length > 0 ? portions : [reads(['-'])], timeout)
    if (reply === undefined) return 'ended'
    // One pass over the replies: with thousands of entries, a look into every reply for every key would stop the event loop.
    const found = new Map<string, KeyValue>()
    for (const one of reply) for (const [key, kv] of one.found) found.set(key, kv)
    const gone = new Set<string>()
    for (const key of keys) {
      const kv = found.get(plainKey(key))
      if (kv === undefined || !isAsSeen(kv, key)) gone.add(key)
    }
    return { gone }
  }
}

const plainKey = (key: string): string => key.split('\n')[0] ?? key

function isAsSeen(kv: KeyValue, member: string): boolean {
  const [field, index] = member.split('\n')[1]?.split(' ') ?? []
  return field === undefined || kv[field as 'ModifyIndex' | 'CreateIndex'] === Number(index)
}
