/** `mysql()` and the drivers it makes. `sql.ts` decides who holds a lock; `waiter.ts` and `hold.ts` send the statements. */
import type { Claim, Driver, DriverFactory, Grant, Traits, Wait } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import { takeTogether } from './acquire-many.js'
import { cellsOver } from './cells.js'
import { createLink } from './connections.js'
import { createBell } from './get-lock-notifier.js'
import { Hold, type Proven } from './hold.js'
import { createRollCall } from './hold-check.js'
import { forceRelease, inspect, list } from './inspect.js'
import { type MysqlOptions, type Settings, settingsOf } from './options.js'
import { createRenewer } from './renewer.js'
import { rowTaker } from './row-strategy.js'
import { assertOpen, createDesk, type Desk, told } from './runtime.js'
import { Heartbeat, SessionHold } from './session/hold.js'
import { createSessions, type Session } from './session/session.js'
import { sessionTaker } from './session/strategy.js'
import { lifeOf } from './sql.js'
import { type Taker, Waiter } from './waiter.js'

export interface MysqlTraits extends Traits {
  readonly modes: readonly ['exclusive', 'shared', 'permits']
  readonly fair: true
  readonly shared: true
  readonly cells: true
  readonly portable: true
  readonly together: true
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
  together: true,
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
  const settings = settingsOf(options)
  return settings.strategy === 'session' ? sessionDriver(settings) : rowDriver(settings)
}

function rowDriver(settings: Settings): DriverFactory<MysqlTraits> {
  return (env) => {
    const { clock } = env
    const holds = new Map<string, Hold>()
    const call = createRollCall({ clock, holds, ask: () => link.ask(lifeOf, true) })
    const link = createLink(settings.pool, clock, settings.commandTimeout, settings.connections, call)
    const desk = createDesk(settings, env, link)
    const bell = settings.bell ? createBell(desk, settings, clock) : undefined
    const renewer = createRenewer(desk)
    const make = (claim: Claim, proven: Proven, ended: () => void) =>
      new Hold(desk, renewer, claim, proven, () => {
        bell?.ring(claim.name)
        ended()
      })
    const taker = rowTaker(desk, bell)
    const closed = () => {
      call.stop()
      link.close()
      bell?.close()
    }
    const over = driverOver({ desk, taker, make, holds, closed })
    return {
      traits,
      ...over,
      async together(claims, wait) {
        assertOpen(desk)
        const known = claims.map(({ attempt }) => holds.get(attempt)).filter((grant) => grant !== undefined)
        if (known.length > 0) return known.length === claims.length ? known : undefined
        const proven = await takeTogether(desk, taker, claims, wait)
        return proven?.map((one, i) => {
          const claim = claims[i] as Claim
          if (claim.mode.kind === 'exclusive') bell?.keep(claim.name)
          return kept(
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
    const desk = createDesk(settings, env, sessions)
    const taker = sessionTaker(desk, sessions)
    const heartbeats = new WeakMap<Session, Heartbeat>()
    const make = (claim: Claim, proven: Proven, ended: () => void) => {
      const session = taker.sessionOf(claim.attempt)
      if (session === undefined)
        throw new BackendError('mysql', 'the connection ended as the lock was granted')
      const heartbeat = heartbeats.get(session) ?? new Heartbeat(desk, session)
      heartbeats.set(session, heartbeat)
      return new SessionHold(desk, claim, session, heartbeat, proven, () => {
        taker.forget(claim.attempt)
        ended()
      })
    }
    const closed = () => sessions.close()
    return {
      traits: sessionTraits,
      ...driverOver({ desk, taker, make, holds: new Map<string, Grant>(), closed }),
    }
  }
}

interface Parts<G extends Grant> {
  readonly desk: Desk
  readonly taker: Taker
  readonly make: (claim: Claim, proven: Proven, ended: () => void) => G
  /** By attempt. */
  readonly holds: Map<string, G>
  readonly closed: () => void
}

function kept<G extends Grant>(holds: Map<string, G>, { attempt }: Claim, grant: G): G {
  holds.set(attempt, grant)
  return grant
}

function driverOver<G extends Grant>(parts: Parts<G>): Omit<Driver, 'traits'> {
  const { desk, taker, make, holds, closed } = parts
  return {
    name: 'mysql',

    async acquire(claim: Claim, wait: Wait): Promise<Grant | undefined> {
      assertOpen(desk)
      const known = holds.get(claim.attempt)
      if (known !== undefined) return known
      const proven = await new Waiter(desk, taker, claim, wait).run()
      if (proven === undefined) return undefined
      return kept(
        holds,
        claim,
        make(claim, proven, () => void holds.delete(claim.attempt)),
      )
    },

    inspect: (name) => told(inspect(desk, name)),
    list: (prefix) => told(list(desk, prefix)),
    forceRelease: (name) => told(forceRelease(desk, name)),
    cells: cellsOver(desk),

    async close() {
      await desk.close()
      holds.clear()
      closed()
    },
  }
}
