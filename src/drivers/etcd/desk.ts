/** etcd's part of what a driver has open: leases, and the beat that proves them. */
import type { Env } from '../../core/driver.js'
import type { Held } from '../kit/guarded.js'
import { type Beat, inPortions, keysOf, type Session } from '../kit/session.js'
import { SessionDesk, type SessionStore } from '../kit/session-desk.js'
import { Unsure } from '../kit/trouble.js'
import { Client } from './client.js'
import { type Line, lineOf } from './keys.js'
import type { Settings } from './options.js'
import { Refusal, troubleOf } from './trouble.js'
import { present } from './txns.js'
import type { TxnAsk } from './wire.js'

/** A transaction may have 128 operations, unless the cluster is told otherwise. */
const mostInTxn = 100
/** With nothing to look for there still is a majority to ask: a key that nobody has. */
const nothing = ['AA==']

export class Desk extends SessionDesk {
  readonly client: Client
  readonly settings: Settings
  /** The keys of what is held: for `guard`. */
  readonly keys: Held<string>

  constructor(settings: Settings, env: Env, keys: Held<string>) {
    const client = new Client(settings, env.clock)
    super(storeOf(client, settings), env)
    this.client = client
    this.settings = settings
    this.keys = keys
  }

  line(name: string): Line {
    return lineOf(this.settings.prefix, name)
  }

  /** Sees to it that a transaction that takes away is carried out. */
  clear(ask: TxnAsk, session: Session, pace: number): Promise<void> {
    const work = () =>
      this.client.txn(ask).then(
        () => true,
        (error) => (error instanceof Refusal && error.noSession) || !troubleOf(error).passing,
      )
    return this.chase(work, session, pace)
  }
}

function storeOf(client: Client, settings: Settings): SessionStore {
  return {
    name: 'etcd',
    each: settings.ownLeases,
    patience: settings.requestTimeout,
    beat: beatOf(client),
    // A tenth more than is claimed: a proof some moments old then still covers a whole ttl from now.
    ttlFor: (ttl) => Math.ceil((ttl * 1.1) / 1000) * 1000,
    create: async (ttl) => {
      const { is, sent } = await client.grantLease(ttl / 1000)
      return { id: is.ID ?? '', ttl: Number(is.TTL ?? 0) * 1000, sent }
    },
    destroy: (id) => client.revokeLease(id),
    close: () => client.close(),
  }
}

/**
 * A lease's keepalive alone proves little: the leader answers it by itself, also one that has been replaced and does not know
 * yet. So it counts only together with a read that needs a majority, from the same member in the same term.
 */
function beatOf(client: Client): Beat {
  return async (id, members, patience) => {
    const keys = keysOf(members)
    const portions = inPortions(keys.length > 0 ? keys : nothing, mostInTxn)
    const { kept, checked } = await client.pair(id, portions.map(present), patience)
    const lease = kept.is.result
    if (lease === undefined) throw new Unsure('a keepalive was answered with nothing')
    if (lease.TTL === undefined || Number(lease.TTL) <= 0) return 'dead'
    const gone = new Set<string>()
    for (const [n, { is }] of checked.entries()) {
      if (is.header.raft_term !== lease.header?.raft_term) {
        throw new Unsure('the leader changed during a renewal')
      }
      for (const [i, key] of (portions[n] ?? []).entries()) {
        if (Number(is.responses?.[i]?.response_range?.count ?? 0) === 0) gone.add(key)
      }
    }
    return { ttl: Number(lease.TTL) * 1000, gone }
  }
}
