/** The driver: `sql.ts` decides, `waiter.ts` and `hold.ts` ask, this hands out. */
import type { Claim, Driver, DriverFactory, Grant, Standing, Traits, Wait } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import { createBell } from './bell.js'
import { cellsOver } from './cells.js'
import { text } from './client.js'
import { createDesk, type Desk, told } from './desk.js'
import { Hold, type Proven } from './hold.js'
import { holdersOf, rowOf, standingOf } from './look.js'
import { type MysqlOptions, type Settings, settingsOf } from './options.js'
import { createRenewer } from './renewer.js'
import { rowTaker } from './row.js'
import { Heartbeat, SessionHold } from './session/hold.js'
import { createSessions, type Session } from './session/session.js'
import { sessionTaker } from './session/taker.js'
import * as sql from './sql.js'
import { type Taker, Waiter } from './waiter.js'

export interface MysqlTraits extends Traits {
  readonly modes: readonly ['exclusive', 'shared', 'permits']
  readonly fair: true
  readonly shared: true
  readonly cells: true
  readonly portable: true
}

const traits: MysqlTraits = Object.freeze({
  modes: ['exclusive', 'shared', 'permits'] as const,
  fair: true,
  // Below that, the way to the server and back eats up a lease.
  minTtl: 100,
  shared: true,
  maxLockDelay: Number.POSITIVE_INFINITY,
  cells: true,
  portable: true,
})

/** Of the strategy `session`. */
export interface MysqlSessionTraits extends Traits {
  readonly modes: readonly ['exclusive']
  readonly fair: true
  readonly shared: true
  readonly cells: true
}

const sessionTraits: MysqlSessionTraits = Object.freeze({
  modes: ['exclusive'] as const,
  fair: true,
  // The server counts its patience with a silent connection in seconds.
  minTtl: 1_000,
  shared: true,
  cells: true,
})

/**
 * Locks in MariaDB 10.6+ or MySQL 8+, over a pool of mysql2 or mariadb.
 * @throws TypeError, RangeError for bad options, UnsupportedError for the strategy `transaction`, before any I/O
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
    const desk = createDesk(settings, env)
    const bell = settings.bell ? createBell(desk, settings, env.clock) : undefined
    const renewer = createRenewer(desk)
    const make = (claim: Claim, proven: Proven, ended: () => void) =>
      new Hold(desk, renewer, claim, proven, () => {
        bell?.ring(claim.name)
        ended()
      })
    return { traits, ...driverOver(desk, rowTaker(desk, bell), make, () => bell?.close()) }
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
    return { traits: sessionTraits, ...driverOver(desk, taker, make, () => sessions.close()) }
  }
}

type Make = (claim: Claim, proven: Proven, ended: () => void) => Grant

function driverOver(desk: Desk, taker: Taker, make: Make, closed: () => void): Omit<Driver, 'traits'> {
  const holds = new Map<string, Grant>()
  return {
    name: 'mysql',

    async acquire(claim: Claim, wait: Wait): Promise<Grant | undefined> {
      assertOpen(desk)
      const known = holds.get(claim.attempt)
      if (known !== undefined) return known
      const proven = await new Waiter(desk, taker, claim, wait).run()
      if (proven === undefined) return undefined
      const hold = make(claim, proven, () => void holds.delete(claim.attempt))
      holds.set(claim.attempt, hold)
      return hold
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

function assertOpen(desk: Desk): void {
  if (desk.closed) throw new BackendError('mysql', 'these locks were closed', { closed: true })
}

async function inspect(desk: Desk, name: string): Promise<Standing> {
  assertOpen(desk)
  const { tables } = desk
  // In this order nobody is missed: who leaves the line in between is seen holding.
  const waiting = await desk.ask(sql.line(tables, name, 'one'))
  const { rows } = await desk.ask(sql.rows(tables, name, 'one'))
  const row = rows[0] === undefined ? undefined : rowOf(rows[0])
  return standingOf(name, row, waiting.rows)
}

async function list(desk: Desk, prefix: string): Promise<readonly Standing[]> {
  assertOpen(desk)
  const { tables } = desk
  const waiting = await desk.ask(sql.line(tables, prefix, 'beginning'))
  const { rows } = await desk.ask(sql.rows(tables, prefix, 'beginning'))
  const found = new Map(rows.map((values) => [text(values[16]), rowOf(values)]))
  const names = new Set([...found.keys(), ...waiting.rows.map(([, name]) => text(name))])
  return [...names]
    .sort()
    .map((name) =>
      standingOf(
        name,
        found.get(name),
        waiting.rows.filter((values) => text(values[1]) === name),
      ),
    )
    .filter(({ holders, waiters }) => holders.length + waiters.length > 0)
}

async function forceRelease(desk: Desk, name: string): Promise<number> {
  assertOpen(desk)
  const { rows } = await desk.ask(sql.rows(desk.tables, name, 'one'))
  const held = rows[0] === undefined ? [] : holdersOf(rowOf(rows[0]))
  if (held.length === 0) return 0
  await desk.ask(sql.force(desk.tables, name))
  return held.length
}
