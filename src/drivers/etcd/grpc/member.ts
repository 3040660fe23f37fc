/**
 * A member over gRPC, with the user's `@grpc/grpc-js`. Calls go over one connection and watches over another: a connection on which calls
 * are no longer answered is replaced, and no watch is lost.
 */
import type { Clock } from '../../../core/clock.js'
import { markRepeated } from '../../kit/failure.js'
import { NoResponseError, type TlsOptions } from '../../kit/http.js'
import type { Header, WatchReply } from '../api-types.js'
import { codes, Refusal } from '../failure.js'
import type { Member, Method, Reply } from '../member.js'
import type { GrpcModule } from './client.js'
import type { Message } from './codec.js'
import { asIs, Connection, cancelLater } from './connection.js'
import { DroppedError, garbledError, lateError, toError } from './failure.js'
import { KeepAlives } from './keep-alives.js'
import { calls } from './messages.js'
import { Watches } from './watches.js'

export class GrpcMember implements Member {
  readonly #clock: Clock
  readonly #calls: Connection
  readonly #following: Connection
  readonly #keepAlives: KeepAlives
  readonly #watches: Watches
  readonly #pending = new Set<() => void>()

  constructor(grpc: GrpcModule, url: URL, clock: Clock, tls: TlsOptions | undefined) {
    this.#clock = clock
    this.#calls = new Connection(grpc, url, clock, tls)
    this.#following = new Connection(grpc, url, clock, tls)
    this.#keepAlives = new KeepAlives(this.#calls)
    this.#watches = new Watches(this.#following)
  }

  async send<T>(method: Method, ask: object, timeout: number, login: string | undefined): Promise<Reply<T>> {
    const sent = this.#clock.now()
    const once = () => this.#once(method, ask, sent, timeout, login)
    try {
      return { is: (await once()) as T, sent, repeated: false }
    } catch (error) {
      if (!(error instanceof DroppedError)) throw error
    }
    const is = await once().catch((error) => {
      throw markRepeated(error)
    })
    return { is: is as T, sent, repeated: true }
  }

  watch(
    ask: object,
    heard: (reply: WatchReply) => void,
    ended: (error: unknown) => void,
    login: string | undefined,
  ): () => void {
    return this.#watches.watch(ask, { onEvents: heard, onEnd: ended }, login)
  }

  close(): void {
    this.#watches.close()
    this.#keepAlives.close()
    for (const end of this.#pending) end()
    this.#calls.close()
    this.#following.close()
  }

  async #once(
    method: Method,
    ask: object,
    sent: number,
    timeout: number,
    login: string | undefined,
  ): Promise<object> {
    if (method === 'keepAlive') return this.#keepAlives.send((ask as { ID: string }).ID, sent, timeout, login)
    const { path, ask: askOf, reply } = calls[method]
    const bytes = await this.#call(path, encode(askOf, ask), sent, timeout, login)
    let is: { readonly header?: Header }
    try {
      is = reply.decode(bytes)
    } catch (error) {
      throw garbledError(error)
    }
    // Every answer must have the store's revision: tokens are made of it.
    if (!Number.isSafeInteger(Number(is.header?.revision)) && method !== 'authenticate')
      throw garbledError('it has no revision')
    return is
  }

  /** Deadlines are on our clock: those of the library follow the wall clock. */
  #call(
    path: string,
    bytes: Buffer,
    sent: number,
    timeout: number,
    login: string | undefined,
  ): Promise<Buffer> {
    const { channel, host } = this.#calls
    return new Promise((resolve, reject) => {
      let late = false
      let over = false
      const giveUp = () => {
        if (over) return
        late = true
        cancel()
        this.#calls.silent(channel, sent)
      }
      // After a stall the answer may be unread in the socket: `soon` runs after it is read.
      const disarm = this.#clock.at(sent + timeout, () => this.#clock.soon(giveUp))
      const metadata = this.#calls.metadata(login) as never
      const call = channel.client.makeUnaryRequest(path, asIs, asIs, bytes, metadata, (error, answer) => {
        over = true
        disarm()
        this.#pending.delete(cancel)
        if (late) return reject(lateError(host, timeout))
        if (error === null && answer !== undefined) {
          channel.heard = this.#clock.now()
          return resolve(answer)
        }
        const failure = error === null ? garbledError('it is empty') : toError(host, error)
        if (failure instanceof NoResponseError) this.#calls.replace(channel)
        else channel.heard = this.#clock.now()
        reject(failure)
      })
      const cancel = () => cancelLater(call)
      this.#pending.add(cancel)
    })
  }
}

/** @throws Refusal, as from the gateway: nothing was sent */
function encode(message: Message, ask: object): Buffer {
  try {
    return message.encode(ask)
  } catch (error) {
    throw new Refusal(codes.invalid, (error as Error).message)
  }
}
