/**
 * The process's one subscription: grants, "somebody waits", "an operator took it".
 *
 * It is opened when something is first waited for, not before: a process that never meets another needs no second
 * connection. Until it is up, and wherever Pub/Sub is not allowed, waiters poll and say so in the line.
 */
import type { Connection, Listening } from './client.js'

export type Push =
  | {
      readonly is: 'granted'
      readonly attempt: string
      readonly token: number
      /** Microseconds between the server's reading of request `n` and the grant. */
      readonly age: number
      readonly n: number
      readonly claim: number
      readonly contended: boolean
      /** The hash key, as the server sees it. */
      readonly hash: string
    }
  /** In so many µs the claim above it runs out. */
  | { readonly is: 'next'; readonly attempt: string; readonly left: number }
  | { readonly is: 'contended' | 'taken'; readonly attempt: string }
  /** A cell has changed. `attempt` is its key, as the server sees it. */
  | { readonly is: 'changed'; readonly attempt: string }

export interface Hearing {
  push(push: Push): void
  /** It is up: those who wait should say where they can be reached. */
  up(): void
}

export interface Ear {
  /** Where this process is reached now; `-` while it cannot be, `-!` when it is not allowed to use channels at all. */
  readonly channel: string
  readonly up: boolean
  /** Grows whenever the subscription breaks: what was agreed before cannot be relied on. */
  readonly epoch: number
  /** May a pushed deadline be trusted? */
  readonly exact: boolean
  /** Idempotent. */
  open(): void
  close(): void
}

/** @param connection of which the subscription makes its own; undefined: never subscribe */
export function createEar(
  connection: Connection | undefined,
  setApart: boolean,
  channel: string,
  hearing: Hearing,
): Ear {
  let up = false
  let epoch = 0
  let refused = false
  let listening: Listening | undefined
  const down = () => {
    up = false
    epoch++
  }
  return {
    get channel() {
      return up ? channel : refused ? '-!' : '-'
    },
    get up() {
      return up
    },
    get epoch() {
      return epoch
    },
    get exact() {
      return listening?.exact === true
    },
    open() {
      if (connection === undefined || listening !== undefined) return
      const ear = {
        message: (text: string) => {
          const push = parsePush(text)
          if (push !== undefined) hearing.push(push)
        },
        up: () => {
          up = true
          hearing.up()
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
      listening = connection.listen(channel, ear, setApart)
    },
    close() {
      down()
      listening?.close()
    },
  }
}

export function parsePush(text: string): Push | undefined {
  const [what, attempt = '', token, age, n, claim, contended, ...hash] = text.split(' ')
  if (what === 'v') return { is: 'changed', attempt: text.slice(2) }
  if (what === 'n') return { is: 'next', attempt, left: Number(token) }
  if (what === 'c') return { is: 'contended', attempt }
  if (what === 'x') return { is: 'taken', attempt }
  if (what !== 'g') return undefined
  return {
    is: 'granted',
    attempt,
    token: Number(token),
    age: Number(age),
    n: Number(n),
    claim: Number(claim),
    contended: contended === '1',
    hash: hash.join(' '),
  }
}
