/** Shared state of the driver: the link, the server's clock as last reported, waiters and holds, and background work. */
import type { Clock } from '../../core/clock.js'
import type { Env } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import { AllLocalWaiters } from '../kit/local-waiters.js'
import { Retries } from '../kit/retries.js'
import { number, text, type Value } from './client.js'
import { type Connections, type Reply, withTimeout } from './connections.js'
import { isMissingTable, toFailure } from './failure.js'
import type { Settings } from './options.js'
import { QuietWaiters } from './quiet-waiters.js'
import { creation, type Tables, tableNames } from './schema.js'
import * as sql from './sql.js'
import * as cells from './sql-cells.js'

export interface Runtime {
  readonly clock: Clock
  readonly random: () => number
  readonly settings: Settings
  readonly tables: Tables
  readonly by: string
  readonly closed: boolean
  /** Sends one statement; creates the tables if they are missing. @throws errors that only `toFailure` turns into a BackendError */
  execute(statement: string, priority?: boolean): Promise<Reply>
  /** Creates the tables if the error says that they are missing. True: it did, and the statement can be sent again. */
  createTablesAfter(error: unknown): Promise<boolean>
  /** Records the server's time: µs, from the first column of the answer to a look. */
  noteServerTime(now: Value, sent: number): void
  /** The last moment, by the server's clock, at which a statement sent now is still wanted, in µs. */
  serverDeadline(): Promise<number>
  /** Work that only `close()` waits for. Its errors are not reported. */
  background(work: Promise<unknown>): void
  /** Ends of attempts that were given up; each is tried once more when the driver closes. */
  readonly cleanups: Retries
  readonly waiters: AllLocalWaiters
  readonly quiet: QuietWaiters
  /** Calls `work` once after `ms`, unless the driver closes first. */
  schedule(ms: number, work: () => void): void
  /** Functions that cut the pauses short when the driver closes. */
  readonly closeListeners: Set<() => void>
  close(): Promise<void>
}

/** Slack for a server clock that runs at a different rate, in µs. */
const slack = 250_000
/** How long a reading of the server's time is used, in ms. */
const anchorFor = 60_000
/** The approximate interval between searches for idle rows, in ms. */
const reapEvery = 600_000

/** @param connections sends all statements */
export function createRuntime(settings: Settings, env: Env, connections: Connections): Runtime {
  const { clock } = env
  const { commandTimeout, prefix, retention } = settings
  const tables = tableNames(prefix)
  const working = new Set<Promise<unknown>>()
  const cleanups = new Retries(clock, () => true)
  const timers = new Set<() => void>()
  const closeListeners = new Set<() => void>()
  let anchor: { readonly at: number; readonly server: number } | undefined
  let asking: Promise<void> | undefined
  let making: Promise<void> | undefined
  let reapAt = clock.now() + reapEvery * (0.5 + env.random())
  let closed = false

  const create = async () => {
    for (const statement of creation(prefix)) await connections.execute(statement)
  }

  const createTablesAfter = async (error: unknown): Promise<boolean> => {
    if (!isMissingTable(error) || !settings.create) return false
    making ??= create().finally(() => {
      making = undefined
    })
    await making
    return true
  }

  const execute: Runtime['execute'] = async (statement, priority) => {
    try {
      return await connections.execute(statement, priority)
    } catch (error) {
      if (await createTablesAfter(error)) return connections.execute(statement, priority)
      throw error
    }
  }

  const greet = async () => {
    const { rows, sent } = await connections.execute(sql.hello)
    const [time, version] = rows[0] ?? []
    if (text(version) === '') throw new BackendError('mysql', 'server version unknown')
    anchor = { at: sent, server: number(time) }
  }

  const reap = async () => {
    const { rows } = await execute(sql.idle(tables, retention))
    for (const [name] of rows) await execute(sql.drop(tables, text(name), retention))
    const old = await execute(sql.gone(tables))
    for (const [attempt] of old.rows) await execute(sql.leave(tables, text(attempt)))
    const empty = await execute(cells.idle(tables, retention))
    for (const [key] of empty.rows) await execute(cells.drop(tables, text(key), retention))
  }

  const schedule: Runtime['schedule'] = (ms, work) => {
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
  }

  const background: Runtime['background'] = (work) => {
    const settled = work.then(
      () => undefined,
      () => undefined,
    )
    working.add(settled)
    void settled.finally(() => working.delete(settled))
  }

  const runtime: Runtime = {
    clock,
    random: env.random,
    settings,
    tables,
    by: env.client,
    get closed() {
      return closed
    },
    execute,
    createTablesAfter,
    noteServerTime(time, sent) {
      anchor = { at: sent, server: number(time) }
    },
    async serverDeadline() {
      if (anchor === undefined || clock.now() - anchor.at > anchorFor) {
        asking ??= greet().finally(() => {
          asking = undefined
        })
        await asking
      }
      if (clock.now() > reapAt && !closed) {
        reapAt = clock.now() + reapEvery * (0.5 + env.random())
        runtime.background(reap())
      }
      const { at, server } = anchor ?? { at: clock.now(), server: 0 }
      return server + (clock.now() - at + commandTimeout) * 1000 + slack
    },
    background,
    cleanups,
    waiters: new AllLocalWaiters({ watching: 2, atOnce: settings.connections }),
    quiet: new QuietWaiters({ execute, tables, schedule, background }),
    schedule,
    closeListeners,
    async close() {
      closed = true
      for (const cut of closeListeners) cut()
      for (const stop of timers) stop()
      timers.clear()
      const worked = withTimeout(clock, commandTimeout, Promise.all(working)).catch(() => undefined)
      await Promise.all([worked, cleanups.close(commandTimeout)])
    },
  }
  return runtime
}

/** Turns an error into what every public verb of the driver throws. */
export async function withBackendErrors<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    throw toFailure(error).error
  }
}

/** @throws BackendError once the locks are closed */
export function assertOpen(runtime: Runtime): void {
  if (runtime.closed) throw new BackendError('mysql', 'these locks were closed', { closed: true })
}
