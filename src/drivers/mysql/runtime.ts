/** Shared state of the driver: the link, the server's clock as last reported, waiters and holds, and background work. */
import type { Clock } from '../../core/clock.js'
import type { Env } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import { Retries } from '../kit/retries.js'
import { number, text, type Value } from './client.js'
import { inTime, type Link, type Reply } from './connections.js'
import { isMissingTable, troubleOf } from './failure.js'
import type { Settings } from './options.js'
import { creation, type Tables, tablesOf } from './schema.js'
import * as sql from './sql.js'
import * as cells from './sql-cells.js'

export interface Desk {
  readonly clock: Clock
  readonly random: () => number
  readonly settings: Settings
  readonly tables: Tables
  readonly by: string
  readonly closed: boolean
  /** Sends one statement; creates the tables if they are missing. @throws errors that only `toFailure` turns into a BackendError */
  ask(statement: string, urgent?: boolean): Promise<Reply>
  /** Creates the tables if the error says that they are missing. True: it did, and the statement can be sent again. */
  made(error: unknown): Promise<boolean>
  /** Records the server's time: µs, from the first column of the answer to a look. */
  heard(now: Value, sent: number): void
  /** The last moment, by the server's clock, at which a statement sent now is still wanted, in µs. */
  latest(): Promise<number>
  /** Work that only `close()` waits for. Its errors are not reported. */
  behind(work: Promise<unknown>): void
  /** Ends of attempts that were given up; each is tried once more when the driver closes. */
  readonly ends: Retries
  /** Calls `work` once after `ms`, unless the driver closes first. */
  later(ms: number, work: () => void): void
  /** Functions that cut the pauses short when the driver closes. */
  readonly pauses: Set<() => void>
  close(): Promise<void>
}

/** Slack for a server clock that runs at a different rate, in µs. */
const slack = 250_000
/** How long a reading of the server's time is used, in ms. */
const anchorFor = 60_000
/** The approximate interval between searches for idle rows, in ms. */
const reapEvery = 600_000

/** @param link sends all statements */
export function createDesk(settings: Settings, env: Env, link: Link): Desk {
  const { clock } = env
  const { commandTimeout, prefix, retention } = settings
  const tables = tablesOf(prefix)
  const working = new Set<Promise<unknown>>()
  const ends = new Retries(clock, () => true)
  const timers = new Set<() => void>()
  const pauses = new Set<() => void>()
  let anchor: { readonly at: number; readonly server: number } | undefined
  let asking: Promise<void> | undefined
  let making: Promise<void> | undefined
  let reapAt = clock.now() + reapEvery * (0.5 + env.random())
  let closed = false

  const create = async () => {
    for (const statement of creation(prefix)) await link.ask(statement)
  }

  const made = async (error: unknown): Promise<boolean> => {
    if (!isMissingTable(error) || !settings.create) return false
    making ??= create().finally(() => {
      making = undefined
    })
    await making
    return true
  }

  const ask: Desk['ask'] = async (statement, urgent) => {
    try {
      return await link.ask(statement, urgent)
    } catch (error) {
      if (await made(error)) return link.ask(statement, urgent)
      throw error
    }
  }

  const greet = async () => {
    const { rows, sent } = await link.ask(sql.hello)
    const [time, version, autocommit] = rows[0] ?? []
    assertCommitting({ rows: [[autocommit]] })
    if (text(version) === '') throw new BackendError('mysql', 'the server does not say what it is')
    anchor = { at: sent, server: number(time) }
  }

  const reap = async () => {
    const { rows } = await ask(sql.idle(tables, retention))
    for (const [name] of rows) await ask(sql.drop(tables, text(name), retention))
    const old = await ask(sql.gone(tables))
    for (const [attempt] of old.rows) await ask(sql.leave(tables, text(attempt)))
    const empty = await ask(cells.idle(tables, retention))
    for (const [key] of empty.rows) await ask(cells.drop(tables, text(key), retention))
  }

  const desk: Desk = {
    clock,
    random: env.random,
    settings,
    tables,
    by: env.by,
    get closed() {
      return closed
    },
    ask,
    made,
    heard(time, sent) {
      anchor = { at: sent, server: number(time) }
    },
    async latest() {
      if (anchor === undefined || clock.now() - anchor.at > anchorFor) {
        asking ??= greet().finally(() => {
          asking = undefined
        })
        await asking
      }
      if (clock.now() > reapAt && !closed) {
        reapAt = clock.now() + reapEvery * (0.5 + env.random())
        desk.behind(reap())
      }
      const { at, server } = anchor ?? { at: clock.now(), server: 0 }
      return server + (clock.now() - at + commandTimeout) * 1000 + slack
    },
    behind(work) {
      const settled = work.then(
        () => undefined,
        () => undefined,
      )
      working.add(settled)
      void settled.finally(() => working.delete(settled))
    },
    ends,
    later(ms, work) {
      if (closed) return
      const stop = clock.at(
        clock.now() + ms,
        () => {
          timers.delete(stop)
          work()
        },
        { ref: false },
      )
      timers.add(stop)
    },
    pauses,
    async close() {
      closed = true
      for (const cut of pauses) cut()
      for (const stop of timers) stop()
      timers.clear()
      const worked = inTime(clock, commandTimeout, Promise.all(working)).catch(() => undefined)
      await Promise.all([worked, ends.close(commandTimeout)])
    },
  }
  return desk
}

/** @param rows `@@autocommit` @throws BackendError if writes would be invisible to everybody else, and stay locked */
export function assertCommitting({ rows }: Pick<Reply, 'rows'>): void {
  if (number(rows[0]?.[0]) === 1) return
  throw new BackendError('mysql', 'the connections of the pool have autocommit off; turn it on for them')
}

/** Turns an error into what every public verb of the driver throws. */
export async function told<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    throw troubleOf(error).error
  }
}

/** @throws BackendError once the locks are closed */
export function assertOpen(desk: Desk): void {
  if (desk.closed) throw new BackendError('mysql', 'these locks were closed', { closed: true })
}
