/**
 * Statement dispatcher over a few connections of the driver's own. One of them stays open and also listens.
 *
 * Each statement goes out at once, on the connection with the fewest unanswered statements, but not behind one that is stuck on a row that
 * somebody else has locked. The dispatcher opens another connection while all are crowded or stuck, and closes it after it has been idle.
 * It retries at once what PostgreSQL says to retry (40001, 40P01), creates a missing schema once, and sends a statement again without
 * notifications when the notification queue is full: the waiters concerned poll by themselves. It abandons a connection that leaves a
 * statement unanswered, with everything on it.
 *
 * Long because opening, closing and abandoning a connection should be seen together.
 */
import type { Clock } from '../../core/clock.js'
import type { Connection, Database, Value } from './client.js'
import { findCode, toFailure } from './failure.js'
import type { Settings } from './options.js'
import { assertTrusted, foreignOwnersQuery } from './schema-trust.js'
import { type Call, creation } from './sql.js'
import { StatementTimeouts } from './statement-timeouts.js'
import { UnansweredStatements } from './unanswered-statements.js'

export interface StatementResult {
  /** The parsed JSON. */
  readonly answer: unknown
  /** Clock reading before the answered statement was sent. */
  readonly sent: number
  /** It was sent more than once, and the first may have been executed. */
  readonly retried: boolean
}

export interface Connections {
  /** @param timeout how many ms from now it may still be sent again after the connection broke; default 0 */
  execute(call: Call, values: readonly Value[], timeout?: number): Promise<StatementResult>
  /** The connection that stays open; opens it if needed. */
  main(): Promise<Connection>
  close(): void
}

export interface ConnectionsEvents {
  notified(payload: string): void
  /** The connection that stays open has ended. */
  mainLost(): void
  /** A statement was answered. */
  answered(): void
  /** Where statements run on the client's pool: a connection of the pool has ended, perhaps because it was idle. */
  pooledLost(): void
  /** The server was restarted, or it is another one: it may know less than the server that answered before. */
  serverRestarted(): void
}

/** Unanswered statements on each connection before another is opened. */
const maxInFlight = 6
const idleTimeout = 10_000
/** How long a statement is retried while somebody else has its row locked, in ms; the server waits a tenth of a second each time. */
const rowLockTimeout = 1_500
const missing = ['42883', '42P01', '3F000']

export function createConnections(
  database: Database,
  clock: Clock,
  settings: Settings,
  random: () => number,
  events: ConnectionsEvents,
): Connections {
  const { commandTimeout, connections } = settings
  let main: Promise<Connection> | undefined
  const extras = new Set<Connection>()
  const opened = new Set<Connection>()
  const unanswered = new UnansweredStatements(clock)
  const timeouts = new StatementTimeouts(clock, commandTimeout)
  let opening: Promise<void> | undefined
  let closed = false
  let created: Promise<void> | undefined
  let trusted: Promise<void> | undefined
  /** The server's life in its last answer, on any connection; `lives`: on each. A life is one start of the server. */
  let life: string | undefined
  const lives = new WeakMap<Connection, string>()
  const forget = database.shared?.ended(() => events.pooledLost())
  const timers = new Set<() => void>()

  const later = (ms: number, fn: () => void) => {
    const stop = clock.at(
      clock.now() + ms,
      () => {
        timers.delete(stop)
        fn()
      },
      { ref: false },
    )
    timers.add(stop)
    return () => {
      stop()
      timers.delete(stop)
    }
  }

  async function open(gone: (connection: Connection | undefined) => void): Promise<Connection> {
    if (database.ended) throw Object.assign(new Error('the pool was ended'), { code: 'POOL_ENDED' })
    let connection: Connection | undefined
    const connecting = database.open({
      notified: events.notified,
      closed: () => {
        if (connection !== undefined) opened.delete(connection)
        gone(connection)
      },
    })
    connection = await timeouts.within(
      connecting,
      (late) => void late.then(({ destroy }) => destroy()).catch(() => undefined),
    )
    if (closed) {
      connection.destroy()
      throw new Error('the locks were closed')
    }
    opened.add(connection)
    return connection
  }

  function mainWire(): Promise<Connection> {
    if (main !== undefined) return main
    const mine: Promise<Connection> = open(() => {
      if (main !== mine) return
      main = undefined
      events.mainLost()
    })
    main = mine
    mine.catch(() => {
      if (main === mine) main = undefined
    })
    return mine
  }

  function openExtra(): Promise<void> | undefined {
    if (opening !== undefined || extras.size + 1 >= connections) return opening
    const gone = (connection: Connection | undefined) => connection !== undefined && extras.delete(connection)
    opening = open(gone)
      .then(
        (connection) => {
          extras.add(connection)
          const retire = () => {
            if (!extras.has(connection)) return
            if (connection.busy > 0) later(idleTimeout, retire)
            else {
              extras.delete(connection)
              connection.destroy()
            }
          }
          later(idleTimeout, retire)
        },
        () => undefined,
      )
      .finally(() => {
        opening = undefined
      })
    return opening
  }

  async function pick(): Promise<Connection> {
    let best = await mainWire()
    if (best.busy === 0) return best
    best = unanswered.least(best, extras)
    if (best.busy >= maxInFlight) void openExtra()
    if (!unanswered.isStuck(best)) return best
    // On a busy machine, opening another connection may take longer than the stuck statement.
    await Promise.race([openExtra(), unanswered.oldest(best)?.over])
    return unanswered.least(best, extras)
  }

  /** If connections lead to different servers, the one opened last leads to the right one: gives up the others. */
  function met(connection: Connection | undefined, present: string): void {
    if (connection !== undefined) lives.set(connection, present)
    if (present === life) return
    const before = life
    const last = [...opened].findLast((one) => lives.has(one))
    life = (last && lives.get(last)) ?? present
    for (const one of opened) if (lives.has(one) && lives.get(one) !== life) one.destroy()
    if (before === undefined) return
    // Nothing is known about the tables of this server or their owners.
    created = undefined
    trusted = undefined
    events.serverRestarted()
  }

  /** @param tells the answer follows a life and a space */
  async function once(
    text: string,
    values: readonly Value[],
    tells = false,
  ): Promise<{ answer: unknown; sent: number }> {
    const { shared } = database
    const connection = shared === undefined ? await pick() : undefined
    const sent = clock.now()
    const running = (connection ?? (shared as NonNullable<typeof shared>)).query(text, values)
    if (connection !== undefined) unanswered.add(connection, sent, running)
    const answer = await timeouts.within(running, () => {
      connection?.destroy()
      running.catch(() => undefined)
    })
    if (!tells) return { answer: JSON.parse(answer), sent }
    const end = answer.indexOf(' ')
    met(connection, answer.slice(0, end))
    return { answer: JSON.parse(answer.slice(end + 1)), sent }
  }

  /** Checks who owns the tables and functions: once, and again after they have been created. */
  function trust(): Promise<void> {
    trusted ??= once(foreignOwnersQuery, [settings.schema]).then(({ answer }) =>
      assertTrusted(settings.schema, answer),
    )
    trusted.catch(() => {
      trusted = undefined
    })
    return trusted
  }

  function create(): Promise<void> {
    created ??= (async () => {
      const text = creation(settings.schema)
      if (database.shared !== undefined) await database.shared.script(text)
      else await (await mainWire()).script(text)
      trusted = undefined
    })()
    // The connection may have ended midway: the next call tries again.
    created.catch(() => {
      created = undefined
    })
    return created
  }

  return {
    main: mainWire,
    async execute(call, values, timeout = 0) {
      const begin = clock.now()
      let quiet = 0
      let retried = false
      for (let tries = 1; ; tries++) {
        try {
          await (trusted ?? trust())
          const result = await once(call.textWithLife, call.notifies ? [...values, quiet] : values, true)
          events.answered()
          return { ...result, retried }
        } catch (error) {
          if (closed) throw error
          const code = findCode(error)
          const inTime = clock.now() - begin < Math.max(timeout, 1)
          if (code === '40001' || code === '40P01') {
            if (clock.now() - begin > commandTimeout) throw error
            if (tries > 3) await pause(random() * Math.min(tries, 20))
          } else if (missing.includes(code) && settings.create && (created === undefined || tries === 2)) {
            // What was created before may be gone: the server was restored from an older copy.
            created = undefined
            await create()
          } else if (missing.includes(code) && created !== undefined && tries < 3) await created
          else if (code === '54000' && quiet === 0) quiet = 1
          else if (code === '55P03' && call.insists && clock.now() - begin < rowLockTimeout) continue
          else if (timeout > 0 && inTime && toFailure(error).ambiguous && tries < 5) {
            retried = true
            await pause(tries * 10)
          } else throw error
        }
      }
    },
    close() {
      closed = true
      main = undefined
      forget?.()
      for (const connection of opened) connection.destroy()
      timeouts.close()
      for (const stop of timers) stop()
      timers.clear()
    },
  }

  function pause(ms: number): Promise<void> {
    return new Promise((resolve) => void later(ms, resolve))
  }
}
