/** The driver: `sql.ts` decides, `waiter.ts` and `hold.ts` ask, this hands out. */
import type { Claim, DriverFactory, Grant, Standing, Traits, Wait } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import { text } from './client.js'
import { createDesk, type Desk, told } from './desk.js'
import { Hold } from './hold.js'
import { holdersOf, rowOf, standingOf } from './look.js'
import { type MysqlOptions, settingsOf } from './options.js'
import { rowTaker } from './row.js'
import * as sql from './sql.js'
import { Waiter } from './waiter.js'

export interface MysqlTraits extends Traits {
  readonly modes: readonly ['exclusive', 'shared', 'permits']
  readonly fair: true
  readonly shared: true
}

const traits: MysqlTraits = Object.freeze({
  modes: ['exclusive', 'shared', 'permits'] as const,
  fair: true,
  // Below that, the way to the server and back eats up a lease.
  minTtl: 100,
  shared: true,
})

/**
 * Locks in MariaDB 10.6+ or MySQL 8+, over a pool of mysql2 or mariadb.
 * @throws TypeError, RangeError for bad options, before any I/O
 */
export function mysql(options: MysqlOptions): DriverFactory<MysqlTraits> {
  const settings = settingsOf(options)
  return (env) => {
    const desk = createDesk(settings, env)
    const taker = rowTaker(desk)
    const holds = new Map<string, Grant>()
    return {
      name: 'mysql',
      traits,

      async acquire(claim: Claim, wait: Wait): Promise<Grant | undefined> {
        assertOpen(desk)
        const known = holds.get(claim.attempt)
        if (known !== undefined) return known
        const proven = await new Waiter(desk, taker, claim, wait).run()
        if (proven === undefined) return undefined
        const hold = new Hold(desk, claim, proven, () => void holds.delete(claim.attempt))
        holds.set(claim.attempt, hold)
        return hold
      },

      inspect: (name) => told(inspect(desk, name)),
      list: (prefix) => told(list(desk, prefix)),
      forceRelease: (name) => told(forceRelease(desk, name)),

      async close() {
        await desk.close()
        holds.clear()
      },
    }
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
