/**
 * The one connection of the strategy `session`: every statement of this process goes over it, in order.
 *
 * The server ends a connection that is silent for `wait_timeout` seconds, and with it every GET_LOCK it holds. `wait_timeout` is set to
 * the longest ttl in use: a process that is cut off keeps its locks for no longer, counted by the server from the last statement,
 * and here from before that statement was sent. No wall clock is involved. The server notices at once when a process dies.
 */
import { setMaxListeners } from 'node:events'
import type { Clock } from '../../../core/clock.js'
import type { Answer, Connection } from '../client.js'
import { NoAnswerError, type Reply, withTimeout } from '../connections.js'
import { isConnectionEnd } from '../failure.js'

export class Session {
  /** Aborts when the connection has ended; its locks are certainly gone, or will be before anybody relies on them. */
  readonly ended: AbortController = new AbortController()
  /** Names whose GET_LOCK this connection has or is requesting, and for which attempt: the server would grant it twice. */
  readonly owners: Map<string, string> = new Map()
  /** Clock reading before the last answered statement was sent. */
  provenAt: number
  /** The current `wait_timeout`, in ms. */
  waitTimeout: number
  readonly #connection: Connection
  readonly #clock: Clock
  readonly #timeout: number
  readonly #unwatch: () => void
  /** Rejects the unanswered statements: a client that closes a connection may leave them unsettled. */
  readonly #unanswered = new Set<(why: unknown) => void>()
  /** Names whose RELEASE_LOCK is unanswered. */
  readonly #releasing = new Set<string>()

  constructor(connection: Connection, clock: Clock, timeout: number, provenAt: number, waitTimeout: number) {
    this.#connection = connection
    this.#clock = clock
    this.#timeout = timeout
    this.provenAt = provenAt
    this.waitTimeout = waitTimeout
    // Each held lock adds a listener.
    setMaxListeners(0, this.ended.signal)
    this.#unwatch = connection.watch((error) => this.end(error))
  }

  get isOver(): boolean {
    return this.ended.signal.aborted
  }

  /** Whether a claim of this process owns the name, or the GET_LOCK of an earlier one may still be there. */
  isTaken(name: string): boolean {
    return this.owners.has(name) || this.#releasing.has(name)
  }

  execute(statement: string): Promise<Reply> {
    return this.#inTime(() => this.#answerTo(statement))
  }

  /** Releases the GET_LOCK of a name, which nobody owns from now on, and which no claim of this process can take before the server has answered. */
  unlock(name: string, statement: string): Promise<Reply> {
    this.owners.delete(name)
    this.#releasing.add(name)
    return this.#inTime(() => this.#release(name, statement))
  }

  /**
   * A refused statement, as after `KILL QUERY`, has released nothing, and the lock would last as long as the connection: it is sent again. No
   * GET_LOCK of that name comes in between. Nor does it matter if nobody waits for the answer any more.
   */
  async #release(name: string, statement: string): Promise<Answer> {
    for (let n = 0; ; n++) {
      try {
        const answer = await this.#answerTo(statement)
        this.#releasing.delete(name)
        return answer
      } catch (error) {
        if (n === maxRefusals || !isRefusal(error)) this.end(error)
        if (this.isOver) throw error
      }
    }
  }

  async #inTime(send: () => Promise<Answer>): Promise<Reply> {
    if (this.isOver) throw this.ended.signal.reason
    const sent = this.#clock.now()
    try {
      const answer = await withTimeout(this.#clock, this.#timeout, send())
      this.provenAt = Math.max(this.provenAt, sent)
      return { ...answer, sent }
    } catch (error) {
      // It has ended. Or no lock depends on it, or can any more: a new connection is better than a silent one.
      const useless = error instanceof NoAnswerError ? this.owners.size === 0 : !isRefusal(error)
      if (useless || this.#clock.now() > this.provenAt + this.waitTimeout) this.end(error)
      throw error
    }
  }

  #answerTo(statement: string): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#unanswered.add(reject)
      const done = () => void this.#unanswered.delete(reject)
      this.#connection.query(statement).then(resolve, reject).finally(done)
    })
  }

  /** Has the server keep the silent connection for at least `ttl` ms. */
  async atLeast(ttl: number): Promise<void> {
    if (ttl <= this.waitTimeout) return
    const seconds = Math.ceil(ttl / 1000)
    await this.execute(`SET SESSION wait_timeout = ${seconds}`)
    this.waitTimeout = Math.max(this.waitTimeout, seconds * 1000)
  }

  end(error?: unknown): void {
    if (this.isOver) return
    this.#unwatch()
    const why = error instanceof Error ? error : new Error('the connection ended')
    this.ended.abort(why)
    this.owners.clear()
    this.#connection.destroy()
    for (const reject of this.#unanswered) reject(why)
  }
}

/** How often the server may refuse to release a GET_LOCK before its connection is closed, which releases it. */
const maxRefusals = 50

/**
 * A refusal by the server leaves the connection as it was. So do `KILL QUERY` and a time limit (70100), which the mariadb client calls
 * fatal: if the connection ends as well, its end is reported by itself.
 */
const isRefusal = (error: unknown) => {
  const { sqlState, fatal } = error as { readonly sqlState?: unknown; readonly fatal?: unknown }
  if (typeof sqlState !== 'string' || isConnectionEnd(error)) return false
  return sqlState === '70100' || (fatal !== true && !sqlState.startsWith('08'))
}

/**
 * True if the connection ended while a statement was in flight, as the server ends an idle connection. The statement may be sent once more
 * over another one: whatever was executed all the same is known by its attempt, and a GET_LOCK ended with the connection.
 */
export function endedDuring(session: Session, error: unknown): boolean {
  return session.isOver && !(error instanceof NoAnswerError)
}
