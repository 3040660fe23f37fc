/**
 * All watches of a member go over one stream, each with a number that we choose. The stream is open only while there is a watch: an
 * idle stream would keep the process from exiting.
 *
 * A login belongs to a stream. With another login, or after the connection was replaced, new watches get a new stream.
 */
import { NoResponseError } from '../../kit/http.js'
import type { WatchReply } from '../api-types.js'
import { Refusal, staleLogin } from '../failure.js'
import type { GrpcStream } from './client.js'
import { type Channel, type Connection, cancelLater } from './connection.js'
import { garbledError, toError } from './failure.js'
import { watchCall } from './messages.js'

interface Watcher {
  readonly onEvents: (reply: WatchReply) => void
  readonly onEnd: (error: unknown) => void
}

type Result = NonNullable<WatchReply['result']> & { readonly watch_id?: string }

const { path, ask: askOf, reply } = watchCall

export class Watches {
  readonly #connection: Connection
  #current: WatchStream | undefined
  readonly #open = new Set<WatchStream>()

  constructor(connection: Connection) {
    this.#connection = connection
  }

  watch(ask: object, watcher: Watcher, login: string | undefined): () => void {
    const { channel } = this.#connection
    if (this.#current?.usable(channel, login) !== true) {
      const stream: WatchStream = new WatchStream(this.#connection, channel, login, () =>
        this.#open.delete(stream),
      )
      this.#open.add(stream)
      this.#current = stream
    }
    return (this.#current as WatchStream).add(ask, watcher)
  }

  close(): void {
    for (const stream of this.#open) stream.fail(new NoResponseError('this process ended the request', true))
  }
}

class WatchStream {
  readonly #connection: Connection
  readonly #channel: Channel
  readonly #login: string | undefined
  readonly #stream: GrpcStream
  readonly #ended: () => void
  readonly #watchers = new Map<string, Watcher>()
  #last = 0
  #hasEnded = false

  constructor(connection: Connection, channel: Channel, login: string | undefined, ended: () => void) {
    this.#connection = connection
    this.#channel = channel
    this.#login = login
    this.#ended = ended
    this.#stream = connection.stream(channel, path, login, true)
    this.#stream.on('data', (bytes) => this.#onReply(bytes))
    this.#stream.on('error', (error) => this.fail(toError(connection.host, error)))
    this.#stream.on('end', () => this.fail(new NoResponseError(`${connection.host} ended the watches`, true)))
  }

  usable(channel: Channel, login: string | undefined): boolean {
    return !this.#hasEnded && channel === this.#channel && login === this.#login
  }

  /** @returns a function that ends the watch */
  add(ask: object, watcher: Watcher): () => void {
    const id = String(++this.#last)
    this.#watchers.set(id, watcher)
    this.#stream.write(askOf.encode({ create_request: { ...ask, watch_id: id } }))
    return () => {
      if (!this.#watchers.delete(id) || this.#hasEnded) return
      if (this.#watchers.size === 0) this.#finish()
      else this.#stream.write(askOf.encode({ cancel_request: { watch_id: id } }))
    }
  }

  /** The watches end: what happened since is not known. */
  fail(error: unknown): void {
    if (this.#hasEnded) return
    const watchers = [...this.#watchers.values()]
    this.#watchers.clear()
    this.#finish()
    if (error instanceof NoResponseError) this.#connection.replace(this.#channel)
    for (const { onEnd } of watchers) onEnd(error)
  }

  #onReply(bytes: Buffer): void {
    if (this.#hasEnded) return
    this.#channel.heard = this.#connection.clock.now()
    let result: Result
    try {
      result = reply.decode(bytes) as Result
    } catch (error) {
      return this.fail(garbledError(error))
    }
    const { watch_id: id = '0', canceled, cancel_reason: why = '' } = result
    if (canceled === true && staleLogin.test(why)) return this.fail(new Refusal(16, why))
    const watcher = this.#watchers.get(id)
    // A reply to an unknown watch: one that has ended meanwhile, or a refusal that does not name its watch.
    if (watcher === undefined) {
      if (Number(id) < 0) this.fail(new Refusal(3, why))
      return
    }
    if (canceled === true) this.#watchers.delete(id)
    watcher.onEvents({ result })
    if (this.#watchers.size === 0 && !this.#hasEnded) this.#finish()
  }

  #finish(): void {
    this.#hasEnded = true
    this.#ended()
    cancelLater(this.#stream)
  }
}
