/**
 * Requests to agents of one cluster. The client uses one agent until it fails, then the next. Every request here may run twice, so
 * a request without an answer is simply retried on another agent. Reads are `consistent`: the leader asks a majority whether it is
 * still the leader.
 *
 * Long because which agent a request uses, and when to move to the next, is one matter.
 */
import type { Clock } from '../../core/clock.js'
import { BackendError } from '../../core/errors.js'
import { markRepeated } from '../kit/failure.js'
import { HttpHost, type HttpRequest, type HttpResponse, NoResponseError } from '../kit/http.js'
import { parseJson } from '../kit/parse-json.js'
import { ServerTime } from '../kit/server-time.js'
import { encodeBody, type KeyValue, type Operation, type TxnReply } from './api-types.js'
import { parseRefusal, Refusal } from './failure.js'
import { encodePath } from './keys.js'
import type { Settings } from './options.js'

/** The result of a transaction: what it read and wrote, by key, or why it did nothing. */
export interface TxnResult {
  readonly committed: boolean
  readonly found: ReadonlyMap<string, KeyValue>
  readonly reason: string
  /** The index of the first operation refused. */
  readonly refused: number
  /** The clock reading from before the answered try was sent. */
  readonly sent: number
  /** An earlier try may have been carried out without an answer. */
  readonly repeated: boolean
}

/** The result of a query, as of `index`. */
export interface WatchResult {
  readonly kvs: readonly KeyValue[]
  readonly index: number
}

/** How long the server holds a query without a change, in s. */
const holdQuery = 60

export class Client {
  readonly time: ServerTime
  readonly #settings: Settings
  readonly #hosts: readonly HttpHost[]
  readonly #open = new Set<() => void>()
  #current = 0
  #closed = false

  constructor(settings: Settings, clock: Clock) {
    this.#settings = settings
    this.time = new ServerTime(clock)
    this.#hosts = settings.urls.map((url) => new HttpHost(url, clock, settings.tls))
  }

  async txn(operations: readonly Operation[]): Promise<TxnResult> {
    const { answer, repeated } = await this.#call({
      method: 'PUT',
      path: this.#path('/v1/txn'),
      body: encodeBody(operations),
    })
    return { ...toTxnResult(answer), repeated }
  }

  async createSession(body: object): Promise<{ readonly id: string; readonly sent: number }> {
    const path = this.#path('/v1/session/create')
    const { answer } = await this.#call({ method: 'PUT', path, body: JSON.stringify(body) })
    const { ID } = parseJson<{ ID: string }>(answer.text, ({ ID }) => typeof ID === 'string' && ID !== '')
    return { id: ID, sent: answer.sent }
  }

  async destroySession(id: string): Promise<void> {
    await this.#call({ method: 'PUT', path: this.#path(`/v1/session/destroy/${id}`) })
  }

  /** Renews a session and reads, through the same agent, each tried once. `undefined`: the session does not exist. */
  async renewAndRead(
    id: string,
    reads: readonly (readonly Operation[])[],
    timeout: number,
  ): Promise<readonly TxnResult[] | undefined> {
    const at = this.#current
    const renew: HttpRequest = { method: 'PUT', path: this.#path(`/v1/session/renew/${id}`) }
    const read = (one: readonly Operation[]): HttpRequest => ({
      method: 'PUT',
      path: this.#path('/v1/txn', 'consistent'),
      body: encodeBody(one),
    })
    try {
      const [renewed, ...answers] = await Promise.all([
        this.#ask(at, renew, timeout),
        ...reads.map((one) => this.#ask(at, read(one), timeout)),
      ])
      if (renewed.status === 404) return undefined
      return answers.map((answer) => ({ ...toTxnResult(answer), repeated: false }))
    } catch (error) {
      this.#leave(at, error)
      throw error
    }
  }

  /** Reads several keys in one step. */
  async read(operations: readonly Operation[]): Promise<TxnResult> {
    const path = this.#path('/v1/txn', 'consistent')
    const { answer } = await this.#call({ method: 'PUT', path, body: encodeBody(operations) })
    return { ...toTxnResult(answer), repeated: false }
  }

  async get(key: string, recurse = false): Promise<WatchResult> {
    const path = this.#path(`/v1/kv/${encodePath(key)}`, 'consistent', ...(recurse ? ['recurse'] : []))
    return toWatchResult((await this.#call({ method: 'GET', path })).answer)
  }

  async keys(beginning: string): Promise<readonly string[]> {
    const path = this.#path(`/v1/kv/${encodePath(beginning)}`, 'consistent', 'keys')
    const { answer } = await this.#call({ method: 'GET', path })
    return answer.status === 404 ? [] : parseJson<string[]>(answer.text, Array.isArray)
  }

  /**
   * Waits until the state seen at `index` has changed, and calls `heard` once; or calls `broke` when the agent can no longer be reached.
   * @returns a function that ends the watch; neither is called afterwards
   */
  watch(
    key: string,
    recurse: boolean,
    index: number,
    heard: (seen: WatchResult) => void,
    broke: (error: unknown) => void,
  ): () => void {
    const at = this.#current
    let over = false
    let cut: (() => void) | undefined
    const end = () => {
      over = true
      this.#open.delete(end)
      cut?.()
    }
    const settled = () => {
      over = true
      this.#open.delete(end)
    }
    const query = async (from: number) => {
      const path = this.#path(
        `/v1/kv/${encodePath(key)}`,
        'consistent',
        `index=${from}`,
        `wait=${holdQuery}s`,
        ...(recurse ? ['recurse'] : []),
      )
      const begun = (stop: () => void) => {
        cut = stop
      }
      // The server adds up to a sixteenth, so that not all queries end at once.
      const timeout = (holdQuery * 1_000 * 17) / 16 + this.#settings.requestTimeout
      const answer = await this.#ask(at, { method: 'GET', path, begun }, timeout)
      if (over) return
      const seen = toWatchResult(answer)
      if (seen.index === from) return query(from)
      settled()
      heard(seen)
    }
    this.#open.add(end)
    query(Math.max(1, index)).catch((error) => {
      if (over) return
      settled()
      this.#leave(at, error)
      broke(error)
    })
    return end
  }

  close(): void {
    this.#closed = true
    for (const end of this.#open) end()
    for (const host of this.#hosts) host.close()
  }

  async #call(ask: HttpRequest): Promise<{ readonly answer: HttpResponse; readonly repeated: boolean }> {
    let repeated = false
    for (let tries = 1; ; tries++) {
      const at = this.#current
      try {
        const answer = await this.#ask(at, ask, this.#settings.requestTimeout)
        return { answer, repeated: repeated || answer.repeated }
      } catch (error) {
        this.#leave(at, error)
        const elsewhere = error instanceof NoResponseError || (error instanceof Refusal && error.transient)
        if (!elsewhere || tries >= this.#hosts.length) throw repeated ? markRepeated(error) : error
        repeated ||= !(error instanceof NoResponseError) || error.wasSent
      }
    }
  }

  /** 404 and 409 are answers; the rest is a refusal. */
  async #ask(at: number, ask: HttpRequest, timeout: number): Promise<HttpResponse> {
    const host = this.#hosts[at]
    if (host === undefined || this.#closed) throw closed()
    const { token } = this.#settings
    const headers = token === undefined ? {} : { 'x-consul-token': token }
    const answer = await host.send({ ...ask, headers }, timeout).catch((error) => {
      // Closing ended the request.
      throw this.#closed ? closed() : error
    })
    this.time.update(answer.headers['date'], answer.sent)
    const { status, text } = answer
    if (status !== 200 && status !== 404 && status !== 409) throw parseRefusal(status, text)
    if (status === 404 && /page not found/.test(text))
      throw new Refusal(400, `it has no Consul API (${text.trim()})`)
    return answer
  }

  #leave(at: number, error: unknown): void {
    if (error instanceof Refusal && !error.transient) return
    if (at === this.#current) this.#current = (at + 1) % this.#hosts.length
  }

  #path(path: string, ...query: readonly string[]): string {
    const { datacenter } = this.#settings
    const all = datacenter === undefined ? query : [...query, `dc=${encodeURIComponent(datacenter)}`]
    return all.length === 0 ? path : `${path}?${all.join('&')}`
  }
}

const closed = () => new BackendError('consul', 'these locks were closed', { closed: true })

/** Every key in an answer must have its indexes: tokens and the order of the queue are made of them. */
const isKey = (kv: unknown): boolean => {
  const { Key, CreateIndex, ModifyIndex } = (kv ?? {}) as Partial<KeyValue>
  return typeof Key === 'string' && Number.isSafeInteger(CreateIndex) && Number.isSafeInteger(ModifyIndex)
}

function isWhole({ Results, Errors }: TxnReply): boolean {
  const indexed = ({ KV }: { readonly KV?: KeyValue }) => KV === undefined || isKey(KV)
  return Results === undefined && Errors === undefined ? false : (Results ?? []).every(indexed)
}

/** @throws Refusal when the session of an operation is over */
function toTxnResult({ status, text, sent }: HttpResponse): Omit<TxnResult, 'repeated'> {
  const { Results, Errors } = parseJson<TxnReply>(text, isWhole)
  const why = (Errors ?? []).map(({ What }) => What).join('; ')
  if (status !== 200) {
    const refusal = new Refusal(status, why)
    if (refusal.noSession || /Permission denied/i.test(why)) throw refusal
  }
  const found = new Map<string, KeyValue>()
  // A write returns its key without the value; a later read in the same transaction returns both.
  for (const { KV } of Results ?? []) if (KV) found.set(KV.Key, KV)
  return { committed: status === 200, found, reason: why, refused: Errors?.[0]?.OpIndex ?? -1, sent }
}

function toWatchResult({ status, text, headers }: HttpResponse): WatchResult {
  const index = Number(headers['x-consul-index'] ?? 0)
  const areKeys = (all: unknown) => Array.isArray(all) && all.every(isKey)
  const kvs = status === 404 ? [] : parseJson<KeyValue[]>(text, areKeys)
  return { kvs, index: Number.isSafeInteger(index) ? index : 0 }
}
