/**
 * The one connection of a process that carries all its advisory locks, and the proof that it is alive.
 *
 * Two clocks watch it. The server's: acquisitions and heartbeats set `idle_session_timeout` to the longest ttl in use; the server ends a session that
 * is silent for that long, and its locks with it. Ours: each answered statement proves every lock until `deadline(sent, ttl)`, which is
 * sooner, because the server starts counting after its answer. So a holder that is cut off knows before anybody else can get the lock. A
 * late answer does not end the connection, because that would end every lock: we give it up only when the server must have ended it.
 * Advisory locks are not rolled back. So after a refused statement (cancelled, too late, in another's way) the connection is *tidied*: it
 * releases the locks that no row records. Otherwise it would keep them from all others for as long as it lives. So would a hold whose
 * release was refused, because it does not end by itself at any time: the release is retried again and again.
 * Long because the life of the one connection is described in one place.
 */
import { setMaxListeners } from 'node:events'
import type { Env } from '../../../core/driver.js'
import { BackendError } from '../../../core/errors.js'
import { TimeLimit } from '../../../core/time-limit.js'
import type { Connection, Database, Value } from '../client.js'
import { findCode, toFailure } from '../failure.js'
import type { Settings } from '../options.js'
import { createReaper } from '../reaper.js'
import { assertTrusted, foreignOwnersQuery } from '../schema-trust.js'
import { type Call, type Calls, createCalls, creation } from '../sql.js'
import { type Notification, parseNotification } from '../subscriber.js'

/** A connection and the signal of its end. */
export interface ConnectionLifetime {
  readonly connection: Connection
  /** Aborts when the connection has ended. */
  readonly ended: AbortSignal
}

export interface SessionResult {
  readonly answer: unknown
  /** Clock reading before the statement was sent. */
  readonly sent: number
  readonly lifetime: ConnectionLifetime
}

export interface Session {
  readonly calls: Calls
  readonly namespace: string
  /** The channel that notifies this process; null: its waiters must poll. */
  readonly channel: string | null
  /** The ttls that the server's idle timeout must cover, by attempt. */
  readonly ttls: Map<string, number>
  /** Silence after which the server is to end the session, in ms. */
  idle(): number
  /**
   * Calls `values` each time it sends the statement, again on a new connection if the old one broke. Undefined: nobody wants it any more,
   * so it is not sent. @throws Unwanted then
   */
  execute(call: Call, values: () => readonly Value[] | undefined): Promise<SessionResult>
  /** Ends an attempt, now or as soon as possible. @param name as stored in the rows @throws as `ask`, when it could not end it now */
  release(name: string, attempt: string): Promise<SessionResult>
  /** One statement for all callers in one tick. Never opens a connection: a new one would prove nothing. */
  heartbeat(lifetime: ConnectionLifetime): Promise<{ readonly sent: number }>
  close(): Promise<void>
}

/** The statement was not sent, because nobody wanted it any more. */
export class Unwanted extends Error {
  override readonly name = 'Unwanted'
}

/** Pause before the next try to release what a rolled-back statement left, or a hold whose release was refused, in ms. */
const cleanUpRetry = 100
/** The longest pause between two tries, in ms. */
const maxPause = 1_000

/** Read committed: a commit that can fail would come after locks were acquired or released. */
const versionQuery = `select pg_backend_pid()::pg_catalog.text as answer from set_config('default_transaction_isolation', 'read committed', false)`

const missing = ['42883', '42P01', '3F000']

export function createSession(
  database: Database,
  settings: Settings,
  env: Env,
  push: (push: Notification) => void,
): Session {
  const { clock, id, random } = env
  const { commandTimeout, schema } = settings
  const calls = createCalls(schema)
  const takes = [calls.sessionAcquire, calls.sessionDowngrade]
  const channel = `holdfast_${id()}`
  const ttls = new Map<string, number>()
  const timers = new Set<() => void>()
  const pending = new Set<Promise<unknown>>()
  let current: Promise<ConnectionLifetime> | undefined
  let heartbeatRunning: Promise<{ sent: number }> | undefined
  /** Connections on which a statement was rolled back: they may hold a lock once more than the rows record. */
  const rolledBack = new WeakSet<ConnectionLifetime>()
  let cleaningUp: ConnectionLifetime | undefined
  let listens = false
  /** Over postgres.js, which opens another connection for it. It may take long, and polling does meanwhile. */
  let listening: Promise<() => Promise<void>> | undefined
  let closed = false

  const later = (ms: number, fn: () => void) => {
    const fire = () => {
      timers.delete(stop)
      fn()
    }
    const stop = clock.at(clock.now() + ms, fire, { ref: false })
    timers.add(stop)
    return () => {
      stop()
      timers.delete(stop)
    }
  }
  const onPayload = (payload: string) => {
    const parsed = parseNotification(payload)
    if (parsed !== undefined && !closed) push(parsed)
  }
  const idle = () => Math.max(1_000, ...[...ttls.values()].map(Math.ceil))

  async function begin(gone: () => void): Promise<ConnectionLifetime> {
    if (database.ended) throw Object.assign(new Error('the pool was ended'), { code: 'POOL_ENDED' })
    const controller = new AbortController()
    // Every hold adds a listener.
    setMaxListeners(0, controller.signal)
    const connection = await inTime(
      database.open({
        notified: onPayload,
        closed: () => {
          gone()
          controller.abort(new BackendError('postgres', 'the connection of this session has ended'))
        },
      }),
      commandTimeout,
    )
    try {
      const pid = Number(await inTime(connection.query(versionQuery, []), commandTimeout))
      if (connection.pid !== undefined && connection.pid !== pid) throw pooled()
      assertTrusted(
        schema,
        JSON.parse(await inTime(connection.query(foreignOwnersQuery, [schema]), commandTimeout)),
      )
      if (settings.listen !== false && database.shared === undefined) {
        await inTime(connection.script(`listen "${channel}"`), commandTimeout)
        listens = true
      } else if (settings.listen !== false) {
        listening ??= database.shared?.listen(channel, onPayload, () => {
          listens = true
        })
      }
    } catch (error) {
      connection.destroy()
      throw error
    }
    if (closed) connection.destroy()
    return { connection, ended: controller.signal }
  }

  function currentLifetime(): Promise<ConnectionLifetime> {
    if (current !== undefined) return current
    const drop = () => {
      if (current === mine) current = undefined
    }
    const mine: Promise<ConnectionLifetime> = begin(drop)
    current = mine
    mine.catch(drop)
    return mine
  }

  /** Calls `over` after `ms`, unless it is stopped first. */
  const after = (ms: number, over: () => void) => {
    const limit = new TimeLimit(clock, ms, over, { ref: false }).armSoon()
    const stop = () => {
      timers.delete(stop)
      limit.stop()
    }
    timers.add(stop)
    return stop
  }

  function inTime<T>(work: Promise<T>, ms: number): Promise<T> {
    return new Promise((resolve, reject) => {
      const stop = after(ms, () => reject(new Error(`no answer within ${ms} ms`)))
      work.then(resolve, reject).finally(stop)
    })
  }

  async function send(at: ConnectionLifetime, call: Call, values: readonly Value[]): Promise<SessionResult> {
    const sent = clock.now()
    const running = at.connection.query(call.text, call.notifies ? [...values, 0] : values)
    // By then the server has ended the connection, or the connection holds nothing.
    const hopeless = after(ttls.size === 0 ? commandTimeout : idle() + commandTimeout, () =>
      at.connection.destroy(),
    )
    const result = running.finally(hopeless)
    const answer = inTime(result, commandTimeout)
    const done: Promise<unknown> = answer.then(
      () => pending.delete(done),
      () => pending.delete(done),
    )
    pending.add(done)
    return { answer: JSON.parse(await answer), sent, lifetime: at }
  }

  /** Statements on one connection run in order: a tidy in flight runs after everything refused by now. */
  function cleanUp(at: ConnectionLifetime): void {
    if (at.ended.aborted || closed || cleaningUp === at) return
    cleaningUp = at
    send(at, calls.sessionTidy, []).then(
      ({ answer }) => {
        cleaningUp = undefined
        if (answer !== 0) cleanUp(at)
        else if (ttls.size === 0) rolledBack.delete(at)
      },
      (error) => {
        cleaningUp = undefined
        if (!missing.includes(findCode(error))) later(cleanUpRetry, () => cleanUp(at))
      },
    )
  }

  async function execute(call: Call, values: () => readonly Value[] | undefined): Promise<SessionResult> {
    let created = false
    for (let tries = 1; ; tries++) {
      let at: ConnectionLifetime | undefined
      try {
        at = await currentLifetime()
        const wanted = values()
        if (wanted === undefined) throw new Unwanted()
        const result = await send(at, call, wanted)
        if (call === calls.sessionRelease && rolledBack.has(at)) cleanUp(at)
        reaper.sweepIfDue()
        return result
      } catch (error) {
        if (error instanceof Unwanted) throw error
        const code = findCode(error)
        if (
          at !== undefined &&
          takes.includes(call) &&
          !missing.includes(code) &&
          !toFailure(error).ambiguous
        ) {
          rolledBack.add(at)
          cleanUp(at)
        }
        if (closed || tries === 8) throw error
        if (missing.includes(code) && settings.create && !created) {
          created = true
          const { connection } = await currentLifetime()
          await connection.script(creation(schema))
          assertTrusted(schema, JSON.parse(await connection.query(foreignOwnersQuery, [schema])))
        } else if (code === '40001' || code === '40P01') {
          await new Promise<void>((resolve) => later(random() * 10 * tries, resolve))
        } else if (!toFailure(error).ambiguous || current !== undefined || tries > 2) throw error
      }
    }
  }

  /** Retries on that connection only: if it has ended, so has the hold. */
  function releaseLater(at: ConnectionLifetime, values: readonly Value[], pause: number): void {
    later(pause, () => {
      if (at.ended.aborted || closed) return
      send(at, calls.sessionRelease, values).then(
        () => cleanUp(at),
        () => releaseLater(at, values, Math.min(2 * pause, maxPause)),
      )
    })
  }

  const reaper = createReaper(
    async (call, values) => send(await currentLifetime(), call, values),
    calls,
    settings,
    env,
  )

  return {
    calls,
    namespace: settings.namespace,
    get channel() {
      return listens ? channel : null
    },
    ttls,
    idle,
    execute,
    async release(name, attempt) {
      const values = [name, attempt]
      try {
        return await execute(calls.sessionRelease, () => values)
      } catch (error) {
        current?.then(
          (at) => releaseLater(at, values, cleanUpRetry),
          () => undefined,
        )
        throw error
      }
    },
    heartbeat(at) {
      if (at.ended.aborted) return Promise.reject(at.ended.reason)
      heartbeatRunning ??= new Promise<void>((resolve) => clock.soon(resolve)).then(() => {
        heartbeatRunning = undefined
        return send(at, calls.sessionBeat, [idle()]).finally(() => reaper.sweepIfDue())
      })
      return heartbeatRunning
    },
    async close() {
      // Waits for releases and cancellations in flight, for as long as a statement may take.
      await Promise.allSettled([...pending, reaper.close()])
      closed = true
      const open = await current?.catch(() => undefined)
      open?.connection.destroy()
      if (listens) await (await listening)?.()
      for (const stop of timers) stop()
      timers.clear()
    },
  }
}

function pooled(): BackendError {
  return new BackendError(
    'postgres',
    "strategy 'session' needs connections that go straight to the server, and a pooler (PgBouncer?) stands in between: it may give " +
      "each statement another server connection, and advisory locks belong to one. Give it the server's own address, or use strategy 'row'",
  )
}
