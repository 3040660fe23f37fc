/** `mysql()` and the drivers it makes. `sql.ts` decides who holds a lock; `waiter.ts` and `hold.ts` send the statements. */
import type { Claim, Driver, DriverFactory, Grant, Traits, Wait } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import { acquireMany } from './acquire-many.js'
import { createCells } from './cells.js'
import { createConnections } from './connections.js'
import { forceRelease, type GiveBack } from './force-release.js'
import { createGetLockNotifier } from './get-lock-notifier.js'
import { Hold, type HoldProof } from './hold.js'
import { createHoldCheck } from './hold-check.js'
import { inspect, list } from './inspect.js'
import { type MysqlOptions, parseOptions, type Settings } from './options.js'
import { createRenewer } from './renewer.js'
import { rowStrategy } from './row-strategy.js'
import { assertOpen, createRuntime, type Runtime, withBackendErrors } from './runtime.js'
import { Heartbeat, SessionHold } from './session/hold.js'
import type { Session } from './session/session.js'
import { createSessions } from './session/sessions.js'
import { sessionStrategy } from './session/strategy.js'
import { expiryExpression } from './sql.js'
import { type Strategy, Waiter } from './waiter.js'

export interface MysqlTraits extends Traits {
  readonly modes: readonly ['exclusive', 'shared', 'permits']
  readonly fair: true
  readonly shared: true
  readonly cells: true
  readonly portable: true
  readonly acquireMany: true
}

const traits: MysqlTraits = Object.freeze({
  modes: ['exclusive', 'shared', 'permits'] as const,
  fair: true,
  // The round trip to the server would use up a shorter lease.
  minTtl: 100,
  shared: true,
  maxLockDelay: Number.POSITIVE_INFINITY,
  cells: true,
  portable: true,
  acquireMany: true,
})

/** Traits of the strategy `session`. */
export interface MysqlSessionTraits extends Traits {
  readonly modes: readonly ['exclusive']
  readonly fair: true
  readonly shared: true
  readonly cells: true
}

const sessionTraits: MysqlSessionTraits = Object.freeze({
  modes: ['exclusive'] as const,
  fair: true,
  // The server counts its timeout for a silent connection in seconds.
  minTtl: 1_000,
  shared: true,
  cells: true,
})

/**
 * Locks in MariaDB 10.6+ or MySQL 8+, over a pool of mysql2 or mariadb.
 * @throws TypeError or RangeError for bad options, UnsupportedError for the strategy `transaction`; all before any I/O
 */
export function mysql(
  options: MysqlOptions & { readonly strategy: 'session' },
): DriverFactory<MysqlSessionTraits>
export function mysql(options: MysqlOptions & { readonly strategy?: 'row' }): DriverFactory<MysqlTraits>
export function mysql(options: MysqlOptions): DriverFactory
export function mysql(options: MysqlOptions): DriverFactory {
  const settings = parseOptions(options)
  return settings.strategy === 'session' ? sessionDriver(settings) : rowDriver(settings)
}

function rowDriver(settings: Settings): DriverFactory<MysqlTraits> {
  return (env) => {
    const { clock } = env
    const holds = new Map<string, Hold>()
    const call = createHoldCheck({ clock, holds, probe: () => connections.execute(expiryExpression, true) })
    const connections = createConnections(settings, clock, call)
    const runtime = createRuntime(settings, env, connections)
    const notifier = settings.wakeWithGetLock ? createGetLockNotifier(runtime, settings, clock) : undefined
    const renewer = createRenewer(runtime)
    const make = (claim: Claim, proven: HoldProof, ended: () => void) =>
      new Hold(runtime, renewer, claim, proven, () => {
        notifier?.notify(claim.name)
        ended()
      })
    const strategy = rowStrategy(runtime, notifier)
    const closed = () => {
      call.stop()
      connections.close()
      notifier?.close()
    }
    const over = driverOver({ runtime, strategy, make, holds, closed })
    return {
      traits,
      ...over,
      async acquireMany(claims, wait) {
        assertOpen(runtime)
        const known = claims.map(({ attempt }) => holds.get(attempt)).filter((grant) => grant !== undefined)
        if (known.length > 0) return known.length === claims.length ? known : undefined
        const proven = await acquireMany(runtime, strategy, claims, wait)
        return proven?.map((one, i) => {
          const claim = claims[i] as Claim
          if (claim.mode.kind === 'exclusive') notifier?.hold(claim.name)
          return registerGrant(
            holds,
            claim,
            make(claim, one, () => void holds.delete(claim.attempt)),
          )
        })
      },
    }
  }
}

function sessionDriver(settings: Settings): DriverFactory<MysqlSessionTraits> {
  return (env) => {
    const sessions = createSessions(settings, env.clock)
    const runtime = createRuntime(settings, env, sessions)
    const strategy = sessionStrategy(runtime, sessions)
    const heartbeats = new WeakMap<Session, Heartbeat>()
    const make = (claim: Claim, proven: HoldProof, ended: () => void) => {
      const session = strategy.findSession(claim.attempt)
      if (session === undefined)
        throw new BackendError('mysql', 'the connection ended as the lock was granted')
      const heartbeat = heartbeats.get(session) ?? new Heartbeat(runtime, session)
      heartbeats.set(session, heartbeat)
      return new SessionHold(runtime, claim, session, heartbeat, proven, () => {
        strategy.forget(claim.attempt)
        ended()
      })
    }
    const holds = new Map<string, SessionHold>()
    const giveBack: GiveBack = async (name, attempt) => {
      const hold = holds.get(attempt)
      if (hold === undefined) await strategy.giveBack(name)
      else await hold.revoke()
    }
    const closed = () => sessions.close()
    return {
      traits: sessionTraits,
      ...driverOver({ runtime, strategy, make, holds, giveBack, closed }),
    }
  }
}

interface Parts<G extends Grant> {
  readonly runtime: Runtime
  readonly strategy: Strategy
  readonly make: (claim: Claim, proven: HoldProof, ended: () => void) => G
  /** By attempt. */
  readonly holds: Map<string, G>
  readonly giveBack?: GiveBack
  readonly closed: () => void
}

function registerGrant<G extends Grant>(holds: Map<string, G>, { attempt }: Claim, grant: G): G {
  holds.set(attempt, grant)
  return grant
}

function driverOver<G extends Grant>(parts: Parts<G>): Omit<Driver, 'traits'> {
  const { runtime, strategy, make, holds, giveBack, closed } = parts
  return {
    name: 'mysql',

    async acquire(claim: Claim, wait: Wait): Promise<Grant | undefined> {
      assertOpen(runtime)
      const known = holds.get(claim.attempt)
      if (known !== undefined) return known
      const proven = await new Waiter(runtime, strategy, claim, wait).run()
      if (proven === undefined) return undefined
      return registerGrant(
        holds,
        claim,
        make(claim, proven, () => void holds.delete(claim.attempt)),
      )
    },

    inspect: (name) => withBackendErrors(inspect(runtime, name)),
    list: (prefix) => withBackendErrors(list(runtime, prefix)),
    forceRelease: (name) => withBackendErrors(forceRelease(runtime, name, giveBack)),
    cells: createCells(runtime),

    async close() {
      await runtime.close()
      holds.clear()
      closed()
    },
  }
}
