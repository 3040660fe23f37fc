/**
 * Requests to a cluster. The client uses one endpoint until it fails, then the next. Every request here may run twice, so a
 * request without an answer is simply retried on another endpoint.
 *
 * Long because which endpoint and which login a request uses is one matter.
 */
import type { Clock } from '../../core/clock.js'
import { BackendError } from '../../core/errors.js'
import { markRepeated } from '../kit/failure.js'
import { HttpHost, NoResponseError } from '../kit/http.js'
import { parseJson } from '../kit/parse-json.js'
import { ServerTime } from '../kit/server-time.js'
import type { Header, LeaseReply, RangeAsk, RangeReply, TxnAsk, TxnReply, WatchReply } from './api-types.js'
import { Refusal, refusalOf } from './failure.js'
import type { Settings } from './options.js'

export interface Reply<T> {
  readonly is: T
  /** The clock reading from before the answered try was sent. */
  readonly sent: number
  /** An earlier try may have been carried out without an answer. */
  readonly repeated: boolean
}

/** A keepalive and the reads that go with it. */
export interface Pair {
  readonly kept: { readonly is: { readonly result?: LeaseReply }; readonly sent: number }
  readonly checked: readonly { readonly is: TxnReply; readonly sent: number }[]
}

/** Every answer must have the store's revision: tokens are made of it. A keepalive's revision is in its `result`. */
function isWhole({ header, result }: { readonly header?: Header; readonly result?: unknown }): boolean {
  return result !== undefined || Number.isSafeInteger(Number(header?.revision))
}

export class Client {
  readonly time: ServerTime
  readonly #settings: Settings
  readonly #hosts: readonly HttpHost[]
  readonly #clock: Clock
  #current = 0
  #login: Promise<string> | undefined
  readonly #follows = new Set<() => void>()
  #closed = false

  constructor(settings: Settings, clock: Clock) {
    this.#settings = settings
    this.#clock = clock
    this.time = new ServerTime(clock)
    this.#hosts = settings.endpoints.map((url) => new HttpHost(url, clock, settings.tls))
  }

  /** The endpoint in use; it changes when that one fails. */
  get current(): number {
    return this.#current
  }

  txn(ask: TxnAsk, patience?: number): Promise<Reply<TxnReply>> {
    return this.#call('/v3/kv/txn', ask, patience)
  }

  range(ask: RangeAsk): Promise<Reply<RangeReply>> {
    return this.#call('/v3/kv/range', ask)
  }

  remove(key: string): Promise<Reply<{ readonly deleted?: string }>> {
    return this.#call('/v3/kv/deleterange', { key })
  }

  /** @param ttl in whole seconds */
  grantLease(ttl: number): Promise<Reply<LeaseReply>> {
    return this.#call('/v3/lease/grant', { TTL: String(ttl) })
  }

  revokeLease(id: string): Promise<Reply<unknown>> {
    return this.#call('/v3/lease/revoke', { ID: id })
  }

  timeToLive(id: string, more: { readonly keys?: true } = {}, patience?: number): Promise<Reply<LeaseReply>> {
    return this.#call('/v3/lease/timetolive', { ID: id, ...more }, patience)
  }

  /** A keepalive and reads, each tried once: the answers must come from the same member. */
  async pair(id: string, checks: readonly TxnAsk[], patience: number): Promise<Pair> {
    const at = this.#current
    try {
      const [kept, ...checked] = await Promise.all([
        this.#ask<{ readonly result?: LeaseReply }>(at, '/v3/lease/keepalive', { ID: id }, patience),
        ...checks.map((one) => this.#ask<TxnReply>(at, '/v3/kv/txn', one, patience)),
      ])
      return { kept, checked }
    } catch (error) {
      this.#leave(at, error)
      throw error
    }
  }

  /**
   * Reports changes of a range from `start_revision` on. `ended` is called once, when no more changes will be reported: the
   * connection broke, or the store no longer keeps the revisions since then.
   * @returns a function that stops the watch
   */
  watch(ask: object, heard: (reply: WatchReply) => void, ended: () => void): () => void {
    const at = this.#current
    let stop: (() => void) | undefined
    let over = false
    const end = () => {
      over = true
      stop?.()
      this.#follows.delete(end)
    }
    const fail = (error: unknown) => {
      if (over) return
      end()
      this.#leave(at, error)
      ended()
    }
    const line = (text: string, status: number) => {
      if (status !== 200) return fail(this.#refused(status, text))
      try {
        heard(JSON.parse(text) as WatchReply)
      } catch {
        fail(undefined)
      }
    }
    const begin = (headers: Readonly<Record<string, string>>) => {
      if (over) return
      const body = JSON.stringify({ create_request: ask })
      stop = this.#host(at).stream({ method: 'POST', path: '/v3/watch', headers, body }, line, fail)
    }
    this.#follows.add(end)
    this.#headers(at, this.#settings.requestTimeout).then(begin).catch(fail)
    return end
  }

  close(): void {
    this.#closed = true
    for (const end of this.#follows) end()
    for (const host of this.#hosts) host.close()
  }

  async #call<T>(
    path: string,
    ask: object,
    patience: number = this.#settings.requestTimeout,
  ): Promise<Reply<T>> {
    let repeated = false
    for (let tries = 1; ; tries++) {
      const at = this.#current
      try {
        const answer = await this.#ask<T>(at, path, ask, patience)
        return { ...answer, repeated: repeated || answer.repeated }
      } catch (error) {
        this.#leave(at, error)
        const elsewhere = error instanceof NoResponseError || (error instanceof Refusal && error.transient)
        if (!elsewhere || tries >= this.#hosts.length) throw repeated ? markRepeated(error) : error
        repeated ||= !(error instanceof NoResponseError) || error.wasSent
      }
    }
  }

  async #ask<T>(at: number, path: string, ask: object, patience: number): Promise<Reply<T>> {
    const body = JSON.stringify(ask)
    for (let again = false; ; again = true) {
      const headers = await this.#headers(at, patience)
      const {
        status,
        text,
        sent,
        repeated,
        headers: told,
      } = await this.#host(at).send({ method: 'POST', path, headers, body }, patience)
      this.time.heard(told['date'], sent)
      if (status === 200)
        return {
          is: parseJson<T & { readonly header?: Header; readonly result?: unknown }>(text, isWhole),
          sent,
          repeated,
        }
      const refusal = this.#refused(status, text)
      if (again || this.#settings.login === undefined || !refusal.staleLogin) throw refusal
    }
  }

  #refused(status: number, text: string): Refusal {
    const refusal = refusalOf(status, text)
    if (refusal.staleLogin) this.#login = undefined
    return refusal
  }

  /** Moves to the next endpoint, unless another request has done so. A refusal that any member would give is no reason to move. */
  #leave(at: number, error: unknown): void {
    if (error instanceof Refusal && !error.transient) return
    if (at === this.#current) this.#current = (at + 1) % this.#hosts.length
  }

  async #headers(at: number, patience: number): Promise<Readonly<Record<string, string>>> {
    if (this.#settings.login === undefined) return {}
    this.#login ??= this.#logIn(at, patience).catch((error) => {
      this.#login = undefined
      throw error
    })
    return { authorization: await this.#login }
  }

  async #logIn(at: number, patience: number): Promise<string> {
    const body = JSON.stringify(this.#settings.login)
    const { status, text } = await this.#host(at).send(
      { method: 'POST', path: '/v3/auth/authenticate', body },
      patience,
    )
    if (status !== 200) throw refusalOf(status, text)
    return String((JSON.parse(text) as { token?: string }).token)
  }

  #host(at: number): HttpHost {
    if (this.#closed) throw new BackendError('etcd', 'these locks were closed', { closed: true })
    const host = this.#hosts[at]
    if (host === undefined) throw new Error(`there is no endpoint ${at}`)
    return host
  }

  get clock(): Clock {
    return this.#clock
  }
}
