/** A member over the JSON gateway that etcd serves beside gRPC, with Node's own HTTP client. */
import type { Clock } from '../../core/clock.js'
import { HttpHost, type TlsOptions } from '../kit/http.js'
import { parseJson } from '../kit/parse-json.js'
import type { ServerTime } from '../kit/server-time.js'
import type { Header, WatchReply } from './api-types.js'
import { parseRefusal } from './failure.js'
import type { Member, Method, Reply } from './member.js'

const paths: Readonly<Record<Method, string>> = {
  range: '/v3/kv/range',
  txn: '/v3/kv/txn',
  deleteRange: '/v3/kv/deleterange',
  grant: '/v3/lease/grant',
  revoke: '/v3/lease/revoke',
  timeToLive: '/v3/lease/timetolive',
  keepAlive: '/v3/lease/keepalive',
  authenticate: '/v3/auth/authenticate',
}

/** A streamed answer, as a keepalive's, is in a `result`. */
interface Whole {
  readonly header?: Header
  readonly result?: unknown
}

/** Every answer must have the store's revision: tokens are made of it. */
function isWhole({ header, result }: Whole): boolean {
  return result !== undefined || Number.isSafeInteger(Number(header?.revision))
}

const toHeaders = (login: string | undefined): Readonly<Record<string, string>> =>
  login === undefined ? {} : { authorization: login }

export class Gateway implements Member {
  readonly #host: HttpHost
  readonly #time: ServerTime

  constructor(url: URL, clock: Clock, tls: TlsOptions | undefined, time: ServerTime) {
    this.#host = new HttpHost(url, clock, tls)
    this.#time = time
  }

  async send<T>(method: Method, ask: object, timeout: number, login: string | undefined): Promise<Reply<T>> {
    const body = JSON.stringify(ask)
    const { status, text, sent, repeated, headers } = await this.#host.send(
      { method: 'POST', path: paths[method], headers: toHeaders(login), body },
      timeout,
    )
    this.#time.update(headers['date'], sent)
    if (status !== 200) throw parseRefusal(status, text)
    const whole = parseJson<Whole>(text, isWhole)
    return { is: (whole.result ?? whole) as T, sent, repeated }
  }

  watch(
    ask: object,
    heard: (reply: WatchReply) => void,
    ended: (error: unknown) => void,
    login: string | undefined,
  ): () => void {
    const fail = (error: unknown) => {
      stop()
      ended(error)
    }
    const keys = (text: string, status: number) => {
      if (status !== 200) return fail(parseRefusal(status, text))
      try {
        heard(JSON.parse(text) as WatchReply)
      } catch {
        fail(undefined)
      }
    }
    const body = JSON.stringify({ create_request: ask })
    const stop = this.#host.stream(
      { method: 'POST', path: '/v3/watch', headers: toHeaders(login), body },
      keys,
      fail,
    )
    return stop
  }

  close(): void {
    this.#host.close()
  }
}
