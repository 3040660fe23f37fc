/**
 * The process's one subscription: "your turn", "others wait", "an operator force-released it". Any client that may publish can forge
 * these: a notification is a reason to ask the server, never an answer.
 *
 * The subscription opens at the first wait, not before: a process without contention needs no second connection. Until it is up, and
 * wherever Pub/Sub is not allowed, waiters poll, and their queue entries say so.
 */
import type { Connection, Subscription } from './client.js'

export type Notification =
  | { readonly is: 'turn' | 'contended' | 'taken'; readonly attempt: string }
  /** The hold or entry ahead ends in `left` µs. */
  | { readonly is: 'next'; readonly attempt: string; readonly left: number }
  /** A cell has changed. `key`: as the server sees it. */
  | { readonly is: 'changed'; readonly key: string }

export interface SubscriberEvents {
  push(push: Notification): void
  /** The subscription is up: waiters should register the channel, and holds may have missed a notification. */
  up(): void
}

export interface Subscriber {
  /**
   * The channel that reaches this process now; with a `-` before it while it is not up: a holder is still notified on it, because it may
   * come up later; a waiter is not. `-` before the process has opened it, `-!` when the server does not allow channels at all.
   */
  readonly channel: string
  readonly up: boolean
  /** Grows whenever the subscription breaks: notifications agreed on before that may be lost. */
  readonly epoch: number
  /** Idempotent. */
  open(): void
  /** The server is no longer the master: the subscription should move. */
  move(): void
  close(): void
}

/** @param connection the connection to duplicate, or to use if `dedicated`; undefined: never subscribe */
export function createSubscriber(
  connection: Connection | undefined,
  dedicated: boolean,
  channel: string,
  events: SubscriberEvents,
): Subscriber {
  let up = false
  let epoch = 0
  let refused = false
  let listening: Subscription | undefined
  const down = () => {
    up = false
    epoch++
  }
  return {
    get channel() {
      return up ? channel : refused ? '-!' : listening === undefined ? '-' : `-${channel}`
    },
    get up() {
      return up
    },
    get epoch() {
      return epoch
    },
    open() {
      if (connection === undefined || listening !== undefined) return
      const handler = {
        message: (text: string) => {
          const push = parseNotification(text)
          if (push !== undefined) events.push(push)
        },
        up: () => {
          up = true
          events.up()
        },
        down,
        refused: (error: Error) => {
          refused = true
          process.emitWarning(
            `holdfast/redis: waiting by polling, because the server refuses the channel (${error.message})`,
            {
              code: 'HOLDFAST_REDIS_POLLING',
            },
          )
        },
      }
      listening = connection.listen(channel, handler, dedicated)
    },
    move: () => listening?.reconnect?.(),
    close() {
      down()
      listening?.close()
    },
  }
}

/** Undefined for foreign messages. The cost does not depend on the length. */
export function parseNotification(text: string): Notification | undefined {
  const about = text.slice(2)
  switch (text.slice(0, 2)) {
    case 'g ':
      return { is: 'turn', attempt: about }
    case 'c ':
      return { is: 'contended', attempt: about }
    case 'x ':
      return { is: 'taken', attempt: about }
    case 'v ':
      return { is: 'changed', key: about }
    case 'n ':
      return { is: 'next', attempt: about.slice(0, 32), left: Number(about.slice(33, 49)) }
    default:
      return undefined
  }
}
