/** The requests of one connection that have no answer yet. Answers come in the order of the requests. */
import { type Reader, Writer } from './jute.js'
import { codes, ops, type Request, refusal, type ZookeeperError } from './protocol.js'
import type { Connection } from './socket.js'
import type { Watches } from './watches.js'

export interface PendingRequest {
  readonly xid: number
  readonly op: number
  readonly sent: number
  readonly answered: (error: number, body: Reader) => void
  readonly lost: (error: ZookeeperError) => void
}

export class PendingRequests {
  readonly #watches: Watches
  #pending: PendingRequest[] = []
  #lastXid = 0

  constructor(watches: Watches) {
    this.#watches = watches
  }

  /** When the oldest of them was sent; Infinity: there is none. */
  get oldest(): number {
    return this.#pending[0]?.sent ?? Number.POSITIVE_INFINITY
  }

  /** @param now the clock reading */
  send<T>(request: Request<T>, connection: Connection, now: number): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#lastXid = this.#lastXid >= 0x7fffffff ? 1 : this.#lastXid + 1
      const to = new Writer().int(this.#lastXid).int(request.op)
      request.write(to)
      this.#pending.push({
        xid: this.#lastXid,
        op: request.op,
        sent: now,
        lost: reject,
        answered: (error, from) => {
          const { watch } = request
          if (error === codes.noNode && watch?.kind === 'data' && request.op === ops.exists)
            this.#watches.add({ ...watch, kind: 'exist' })
          if (error !== 0) return reject(refusal(error, 'the request'))
          // Registered before the next message is read: that may be the event.
          if (watch !== undefined) this.#watches.add(watch)
          try {
            resolve(request.read(from))
          } catch (wrong) {
            reject(wrong)
          }
        },
      })
      connection.send(to.frame())
    })
  }

  /** Takes out the request that this is the answer to. @throws when another should have been answered first */
  take(xid: number): PendingRequest {
    const [first] = this.#pending
    if (first?.xid !== xid) throw new Error(`an answer to request ${xid} came out of turn`)
    this.#pending.shift()
    return first
  }

  /** The connection broke: whether the server carried them out is unknown. */
  rejectAll(error: ZookeeperError): void {
    const left = this.#pending
    this.#pending = []
    for (const one of left) one.lost(error)
  }
}
