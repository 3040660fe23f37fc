/**
 * Long because who opens, closes and abandons a connection should be seen at once.
 *
 * How statements travel: over a few connections of the driver's own, one of which stays and listens, too.
 *
 * Each goes at once, on the connection with the fewest unanswered ones; another is opened while all have many, and closed when
 * it has been idle. What PostgreSQL says to do again (40001, 40P01) is done again at once, a missing schema is created once,
 * and when the queue of notifications is full the statement is sent again without them: who was to be told will ask by itself.
 * A connection that leaves a statement unanswered is given up, with all that is on it.
 */
import type { Clock } from '../../core/clock.js'
import type { Database, Value, Wire } from './client.js'
import type { Settings } from './options.js'
import { type Call, creation } from './sql.js'
import { codeOf, troubleOf } from './trouble.js'

export interface Told {
  /** What the JSON says. */
  readonly answer: unknown
  /** Clock reading before the statement that was answered left. */
  readonly sent: number
  /** It was sent more than once, and the first may have been carried out. */
  readonly again: boolean
}

export interface Lane {
  /** @param patience ms from now within which it may be sent again after the connection broke; default 0 */
  ask(call: Call, values: readonly Value[], patience?: number): Promise<Told>
  /** The connection that stays; opens it. */
  main(): Promise<Wire>
  close(): void
}

export interface LaneEvents {
  notified(payload: string): void
  /** The connection that stays has ended. */
  mainGone(): void
}

/** So many unanswered statements on each connection before another is opened. */
const crowded = 6
const idleFor = 10_000
const missing = ['42883', '42P01', '3F000']

export function createLane(
  database: Database,
  clock: Clock,
  settings: Settings,
  random: () => number,
  events: LaneEvents,
): Lane {
  const { commandTimeout, connections } = settings
  let main: Promise<Wire> | undefined
  const extras = new Set<Wire>()
  const opened = new Set<Wire>()
  let opening = false
  let closed = false
  let created: Promise<void> | undefined
  const timers = new Set<() => void>()
  const flights = new Set<{ readonly due: number; readonly late: () => void }>()
  let disarm: (() => void) | undefined

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

  async function open(gone: (wire: Wire | undefined) => void): Promise<Wire> {
    if (database.ended) throw Object.assign(new Error('the pool was ended'), { code: 'POOL_ENDED' })
    let wire: Wire | undefined
    const connecting = database.open({
      notified: events.notified,
      gone: () => {
        if (wire !== undefined) opened.delete(wire)
        gone(wire)
      },
    })
    wire = await withTimeout(
      connecting,
      (late) => void late.then(({ destroy }) => destroy()).catch(() => undefined),
    )
    if (closed) {
      wire.destroy()
      throw new Error('the locks were closed')
    }
    opened.add(wire)
    return wire
  }

  function mainWire(): Promise<Wire> {
    if (main !== undefined) return main
    const mine: Promise<Wire> = open(() => {
      if (main !== mine) return
      main = undefined
      events.mainGone()
    })
    main = mine
    mine.catch(() => {
      if (main === mine) main = undefined
    })
    return mine
  }

  function openExtra(): void {
    if (opening || extras.size + 1 >= connections) return
    opening = true
    const gone = (wire: Wire | undefined) => wire !== undefined && extras.delete(wire)
    open(gone)
      .then(
        (wire) => {
          extras.add(wire)
          const retire = () => {
            if (!extras.has(wire)) return
            if (wire.busy > 0) later(idleFor, retire)
            else {
              extras.delete(wire)
              wire.destroy()
            }
          }
          later(idleFor, retire)
        },
        () => undefined,
      )
      .finally(() => {
        opening = false
      })
  }

  async function pick(): Promise<Wire> {
    let best = await mainWire()
    if (best.busy === 0) return best
    for (const wire of extras) if (wire.busy < best.busy) best = wire
    if (best.busy >= crowded) openExtra()
    return best
  }

  /** One timer for all: it looks at the oldest, and is armed again for the next. What arrived while the event loop stood still is read first. */
  const patrolAt = (at: number) => clock.at(at, () => clock.soon(patrol), { ref: false })

  function patrol(): void {
    disarm = undefined
    const now = clock.now()
    for (const flight of flights) {
      if (flight.due > now) break
      flights.delete(flight)
      flight.late()
    }
    const [oldest] = flights
    if (oldest !== undefined) disarm = patrolAt(oldest.due)
  }

  /** Rejects after the time-out; `abandoned` gets what may still come. */
  function withTimeout<T>(work: Promise<T>, abandoned: (late: Promise<T>) => void): Promise<T> {
    return new Promise((resolve, reject) => {
      const due = clock.now() + commandTimeout
      const late = () => {
        reject(new Error(`no answer within ${commandTimeout} ms`))
        abandoned(work)
      }
      const flight = { due, late }
      flights.add(flight)
      disarm ??= patrolAt(due)
      work.then(
        (value) => {
          flights.delete(flight)
          resolve(value)
        },
        (error) => {
          flights.delete(flight)
          reject(error)
        },
      )
    })
  }

  async function once(text: string, values: readonly Value[]): Promise<{ answer: unknown; sent: number }> {
    const { shared } = database
    const wire = shared === undefined ? await pick() : undefined
    const sent = clock.now()
    const running = (wire ?? (shared as NonNullable<typeof shared>)).query(text, values)
    const answer = await withTimeout(running, () => {
      wire?.destroy()
      running.catch(() => undefined)
    })
    return { answer: JSON.parse(answer), sent }
  }

  function create(): Promise<void> {
    created ??= (async () => {
      const text = creation(settings.schema)
      if (database.shared !== undefined) return database.shared.script(text)
      return (await mainWire()).script(text)
    })()
    // The connection may have gone in the middle: next time again.
    created.catch(() => {
      created = undefined
    })
    return created
  }

  return {
    main: mainWire,
    async ask(call, values, patience = 0) {
      const begin = clock.now()
      let quiet = 0
      let again = false
      for (let tries = 1; ; tries++) {
        try {
          const told = await once(call.text, call.notifies ? [...values, quiet] : values)
          return { ...told, again }
        } catch (error) {
          if (closed) throw error
          const code = codeOf(error)
          const inTime = clock.now() - begin < Math.max(patience, 1)
          if (code === '40001' || code === '40P01') {
            if (clock.now() - begin > commandTimeout) throw error
            if (tries > 3) await pause(random() * Math.min(tries, 20))
          } else if (missing.includes(code) && settings.create && created === undefined) await create()
          else if (missing.includes(code) && created !== undefined && tries < 3) await created
          else if (code === '54000' && quiet === 0) quiet = 1
          else if (patience > 0 && inTime && troubleOf(error).unknown && tries < 5) {
            again = true
            await pause(tries * 10)
          } else throw error
        }
      }
    },
    close() {
      closed = true
      main = undefined
      for (const wire of opened) wire.destroy()
      disarm?.()
      for (const flight of flights) flight.late()
      flights.clear()
      for (const stop of timers) stop()
      timers.clear()
    },
  }

  function pause(ms: number): Promise<void> {
    return new Promise((resolve) => void later(ms, resolve))
  }
}
