/**
 * Requests to a cluster. The client uses one endpoint until it fails, then the next. Every request here may run twice, so a
 * request without an answer is simply retried on another endpoint.
 *
 * Long because which endpoint and which login a request uses is one matter.
 */
import type { Clock } from '../../core/clock.js'
import { BackendError } from '../../core/errors.js'
import { TimeLimit } from '../../core/time-limit.js'
import { markRepeated } from '../kit/failure.js'
import { NoResponseError } from '../kit/http.js'
import { ServerTime } from '../kit/server-time.js'
import type {
  LeaseReply,
  RangeRequest,
  RangeResponse,
  TxnReply,
  TxnRequest,
  WatchReply,
} from './api-types.js'
import { Refusal } from './failure.js'
import { Gateway } from './gateway.js'
import { GrpcMember } from './grpc/member.js'
import type { Member, Method, Reply } from './member.js'
import type { Settings } from './options.js'

/** A keepalive and the reads that go with it. */
export interface Pair {
  readonly kept: Reply<LeaseReply>
  readonly checked: readonly Reply<TxnReply>[]
}

interface Login {
  readonly at: number
  readonly token: Promise<string>
  /** Undefined until the server has answered. */
  granted?: string
}

/**
 * How long a login may take, in request timeouts. etcd spends a tenth of a second of processor time on each password (bcrypt), so many
 * clients that log in at once wait for each other. Sending a login again would make etcd check the password again.
 */
const loginTimeouts = 5

export class Client {
  readonly time: ServerTime
  readonly #settings: Settings
  readonly #members: readonly Member[]
  readonly #clock: Clock
  #current = 0
  #login: Login | undefined
  readonly #follows = new Set<() => void>()
  #closed = false

  constructor(settings: Settings, clock: Clock) {
    this.#settings = settings
    this.#clock = clock
    this.time = new ServerTime(clock)
    const { endpoints, grpc, tls } = settings
    this.#members = endpoints.map((url) =>
      grpc === undefined ? new Gateway(url, clock, tls, this.time) : new GrpcMember(grpc, url, clock, tls),
    )
  }

  /** The endpoint in use; it changes when that one fails. */
  get current(): number {
    return this.#current
  }

  async txn(ask: TxnRequest, timeout?: number): Promise<Reply<TxnReply>> {
    return whole(ask, await this.#call<TxnReply>('txn', ask, timeout))
  }

  range(ask: RangeRequest): Promise<Reply<RangeResponse>> {
    return this.#call('range', ask)
  }

  remove(key: string): Promise<Reply<{ readonly deleted?: string }>> {
    return this.#call('deleteRange', { key })
  }

  /** @param ttl in whole seconds */
  grantLease(ttl: number): Promise<Reply<LeaseReply>> {
    return this.#call('grant', { TTL: String(ttl) })
  }

  revokeLease(id: string): Promise<Reply<unknown>> {
    return this.#call('revoke', { ID: id })
  }

  timeToLive(id: string, more: { readonly keys?: true } = {}, timeout?: number): Promise<Reply<LeaseReply>> {
    return this.#call('timeToLive', { ID: id, ...more }, timeout)
  }

  /** A keepalive and reads, each tried once: the answers must come from the same member. */
  async keepAliveAndRead(id: string, checks: readonly TxnRequest[], timeout: number): Promise<Pair> {
    const at = this.#current
    try {
      const [kept, ...checked] = await Promise.all([
        this.#ask<LeaseReply>(at, 'keepAlive', { ID: id }, timeout),
        ...checks.map((one) => this.#ask<TxnReply>(at, 'txn', one, timeout)),
      ])
      return { kept, checked: checked.map((reply, i) => whole(checks[i], reply)) }
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
    let used: string | undefined
    const end = () => {
      over = true
      stop?.()
      this.#follows.delete(end)
    }
    const fail = (error: unknown) => {
      if (over) return
      end()
      this.#refused(error, used)
      this.#leave(at, error)
      ended()
    }
    const begin = (login: string | undefined) => {
      used = login
      if (!over) stop = this.#member(at).watch(ask, heard, fail, login)
    }
    this.#follows.add(end)
    this.#token(at, this.#settings.requestTimeout).then(begin).catch(fail)
    return end
  }

  close(): void {
    this.#closed = true
    for (const end of this.#follows) end()
    for (const member of this.#members) member.close()
  }

  async #call<T>(method: Method, ask: object, within?: number): Promise<Reply<T>> {
    const timeout = within ?? this.#settings.requestTimeout
    let repeated = false
    for (let tries = 1; ; tries++) {
      const at = this.#current
      // While there is another endpoint to try, do not wait longer for a silent one.
      const patient = within === undefined && tries === this.#members.length
      try {
        const answer = await this.#ask<T>(
          at,
          method,
          ask,
          timeout,
          patient ? loginTimeouts * timeout : timeout,
        )
        return { ...answer, repeated: repeated || answer.repeated }
      } catch (error) {
        this.#leave(at, error)
        const elsewhere = error instanceof NoResponseError || (error instanceof Refusal && error.transient)
        if (!elsewhere || tries >= this.#members.length) throw repeated ? markRepeated(error) : error
        repeated ||= !(error instanceof NoResponseError) || error.wasSent
      }
    }
  }

  async #ask<T>(
    at: number,
    method: Method,
    ask: object,
    timeout: number,
    loginTimeout = timeout,
  ): Promise<Reply<T>> {
    for (let again = false; ; again = true) {
      let login: string | undefined
      try {
        login = await this.#token(at, loginTimeout)
        return await this.#member(at).send<T>(method, ask, timeout, login)
      } catch (error) {
        // Closing ended the request.
        if (this.#closed) throw closed()
        if (!this.#refused(error, login) || again || login === undefined) throw error
      }
    }
  }

  /**
   * Was it the login that was refused? Then the next request logs in again, unless another has begun to since `used` was sent: each of a
   * hundred requests refused at once would have etcd check the password.
   */
  #refused(error: unknown, used: string | undefined): boolean {
    const stale = error instanceof Refusal && error.staleLogin
    if (stale && this.#login?.granted === used) this.#login = undefined
    return stale
  }

  /** Moves to the next endpoint, unless another request has done so. A refusal that any member would give is no reason to move. */
  #leave(at: number, error: unknown): void {
    if (error instanceof Refusal && !error.transient) return
    if (at === this.#current) this.#current = (at + 1) % this.#members.length
  }

  /** Callers share a login that is under way. If one of them gives up, the login goes on. Another endpoint needs a login of its own. */
  async #token(at: number, timeout: number): Promise<string | undefined> {
    const { login: ask } = this.#settings
    if (ask === undefined) return undefined
    const begun = this.#login
    if (begun?.granted !== undefined) return begun.granted
    const { token } = begun?.at === at ? begun : this.#logIn(at, ask)
    return this.#within(at, token, timeout)
  }

  #logIn(at: number, ask: object): Login {
    const timeout = loginTimeouts * this.#settings.requestTimeout
    const sent = this.#member(at).send<{ token?: string }>('authenticate', ask, timeout, undefined)
    const before = this.#login
    const token = new Promise<string>((resolve, reject) => {
      // A token is good at every endpoint: the one that was left may answer yet.
      before?.token.then(resolve, () => undefined)
      sent.then(({ is }) => resolve(String(is.token)), reject)
    })
    const login: Login = { at, token }
    this.#login = login
    token.then(
      (granted) => {
        login.granted = granted
      },
      () => {
        if (this.#login === login) this.#login = undefined
      },
    )
    return login
  }

  /** Rejects after `timeout` ms: only the login was sent then, not the caller's request. */
  #within(at: number, token: Promise<string>, timeout: number): Promise<string> {
    const host = this.#settings.endpoints[at]?.host
    return new Promise((resolve, reject) => {
      const late = () =>
        reject(
          new NoResponseError(`${host} gave no answer to the login within ${Math.round(timeout)} ms`, false),
        )
      const limit = new TimeLimit(this.#clock, timeout, late).armSoon()
      token.finally(() => limit.stop()).then(resolve, reject)
    })
  }

  #member(at: number): Member {
    if (this.#closed) throw closed()
    const member = this.#members[at]
    if (member === undefined) throw new Error(`there is no endpoint ${at}`)
    return member
  }

  get clock(): Clock {
    return this.#clock
  }
}

const closed = () => new BackendError('etcd', 'these locks were closed', { closed: true })

/** An answer that lacks a result would pass for one that found nothing. */
function whole(ask: TxnRequest | undefined, reply: Reply<TxnReply>): Reply<TxnReply> {
  const { succeeded, responses = [] } = reply.is
  const asked = (succeeded === true ? ask?.success : ask?.failure) ?? []
  if (responses.length === asked.length) return reply
  throw new NoResponseError(`the answer was garbled: ${responses.length} results of ${asked.length}`, true)
}
