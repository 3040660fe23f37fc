/**
 * The keepalives of all leases that are to be answered at the same time go over one stream. A stream is open only while an answer is
 * due: an idle stream would keep the process from exiting.
 *
 * The member answers in the order of the requests. An answer belongs to the first request that has none, and its lease must be that one's.
 */
import { NoResponseError } from '../../kit/http.js'
import type { LeaseReply } from '../api-types.js'
import type { GrpcStream } from './client.js'
import { type Channel, type Connection, cancelLater } from './connection.js'
import { garbledError, lateError, toError } from './failure.js'
import { calls } from './messages.js'

interface PendingKeepAlive {
  readonly id: string
  /** The caller has its answer: there was none in time. */
  late: boolean
  readonly resolve: (reply: LeaseReply) => void
  readonly reject: (error: unknown) => void
}

const { path, ask, reply } = calls.keepAlive

export class KeepAlives {
  readonly #connection: Connection
  #current: KeepAliveStream | undefined
  readonly #open = new Set<KeepAliveStream>()

  constructor(connection: Connection) {
    this.#connection = connection
  }

  /** @param sent the clock reading from before the first try */
  send(id: string, sent: number, timeout: number, login: string | undefined): Promise<LeaseReply> {
    const { channel, host, clock } = this.#connection
    if (this.#current?.usable(channel, login) !== true) {
      const beats: KeepAliveStream = new KeepAliveStream(this.#connection, channel, login, () =>
        this.#open.delete(beats),
      )
      this.#open.add(beats)
      this.#current = beats
    }
    const beats = this.#current as KeepAliveStream
    return new Promise((resolve, reject) => {
      let over = false
      const stop = () => {
        over = true
        disarm()
      }
      const due: PendingKeepAlive = {
        id,
        late: false,
        resolve: (is) => {
          stop()
          resolve(is)
        },
        reject: (error) => {
          stop()
          reject(error)
        },
      }
      const giveUp = () => {
        if (over) return
        reject(lateError(host, timeout))
        due.late = true
        beats.drop()
        this.#connection.silent(channel, sent)
      }
      // After a stall the answer may be unread in the socket: `soon` runs after it is read.
      const disarm = clock.at(sent + timeout, () => clock.soon(giveUp))
      beats.add(due)
    })
  }

  close(): void {
    for (const beats of this.#open) beats.fail(new NoResponseError('this process ended the request', true))
  }
}

class KeepAliveStream {
  readonly #connection: Connection
  readonly #channel: Channel
  readonly #login: string | undefined
  readonly #stream: GrpcStream
  readonly #ended: () => void
  #pending: PendingKeepAlive[] = []
  #hasEnded = false

  constructor(connection: Connection, channel: Channel, login: string | undefined, ended: () => void) {
    this.#connection = connection
    this.#channel = channel
    this.#login = login
    this.#ended = ended
    this.#stream = connection.stream(channel, path, login)
    this.#stream.on('data', (bytes) => this.#onReply(bytes))
    this.#stream.on('error', (error) => this.fail(toError(connection.host, error)))
    this.#stream.on('end', () =>
      this.fail(new NoResponseError(`${connection.host} ended the keepalives`, true)),
    )
  }

  usable(channel: Channel, login: string | undefined): boolean {
    return !this.#hasEnded && channel === this.#channel && login === this.#login
  }

  add(due: PendingKeepAlive): void {
    this.#pending.push(due)
    this.#stream.write(ask.encode({ ID: due.id }))
  }

  /** Ends the stream if all that are due are late. */
  drop(): void {
    if (this.#pending.every(({ late }) => late)) this.fail(undefined)
  }

  fail(error: unknown): void {
    if (this.#hasEnded) return
    this.#finish()
    cancelLater(this.#stream)
    for (const { late, reject } of this.#pending.splice(0)) if (!late) reject(error)
    if (error instanceof NoResponseError && !error.wasSent) this.#connection.replace(this.#channel)
  }

  #onReply(bytes: Buffer): void {
    if (this.#hasEnded) return
    this.#channel.heard = this.#connection.clock.now()
    let is: LeaseReply
    try {
      is = reply.decode(bytes) as LeaseReply
    } catch (error) {
      return this.fail(garbledError(error))
    }
    const first = this.#pending[0]
    if (first === undefined || first.id !== (is.ID ?? '0') || is.header?.revision === undefined)
      return this.fail(garbledError(`a keepalive of ${first?.id} answered for ${is.ID}`))
    this.#pending.shift()
    if (!first.late) first.resolve(is)
    if (this.#pending.length > 0) return
    this.#finish()
    this.#stream.end()
  }

  #finish(): void {
    this.#hasEnded = true
    this.#ended()
  }
}
