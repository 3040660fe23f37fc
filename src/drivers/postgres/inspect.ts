/** Turns the answers of the SQL functions into what operators and errors show. */
import type { Holder, LockStatus, Waiter } from '../../core/driver.js'
import { exclusive, type Mode, permits, shared } from '../../core/mode.js'

export const letters = { exclusive: 'x', shared: 's', permits: 'p' } as const

function parseMode(letter: unknown, take: unknown, of: unknown): Mode {
  if (letter === 's') return shared
  return letter === 'p' ? permits(Number(take), Number(of)) : exclusive
}

const ms = (micros: unknown) => Number(micros) / 1000

/** [attempt, kind, take, limit, token, µs held, µs left or null, by, note] */
export function toHolder(row: readonly unknown[]): Holder {
  const [attempt, letter, take, of, token, held, left, by, note] = row
  return {
    attempt: String(attempt),
    mode: parseMode(letter, take, of),
    token: Number(token),
    heldFor: ms(held),
    expiresIn: left === null ? Number.POSITIVE_INFINITY : ms(left),
    ...described(by, note),
  }
}

/** [attempt, kind, take, limit, µs waited, by, note] */
function toWaiter([attempt, letter, take, of, waited, by, note]: readonly unknown[]): Waiter {
  return {
    attempt: String(attempt),
    mode: parseMode(letter, take, of),
    waitedFor: ms(waited),
    ...described(by, note),
  }
}

/** [newest token, [holder, ...], [waiter, ...]] */
export function toLockStatus(name: string, answer: unknown): LockStatus {
  const [token, holders, waiters] = answer as readonly [unknown, readonly unknown[][], readonly unknown[][]]
  return {
    name,
    holders: holders.map(toHolder),
    waiters: waiters.map(toWaiter),
    lastToken: Number(token),
  }
}

function described(by: unknown, note: unknown): { client?: string; note?: string } {
  return {
    ...(typeof by === 'string' && by !== '' && { client: by }),
    ...(typeof note === 'string' && note !== '' && { note }),
  }
}

export type AcquireReply =
  | { readonly is: 'granted'; readonly token: number; readonly contended: boolean }
  /** The attempt was released or cancelled before. */
  | { readonly is: 'over' }
  | { readonly is: 'limit'; readonly limit: number }
  | {
      readonly is: 'blocked'
      /** Position in the queue, 1 is next; 0: not queued. */
      readonly place: number
      readonly ticket: number
      /** Milliseconds until it is worth asking again. */
      readonly left: number
      readonly holder: Holder | undefined
    }

/** Parses the answer of `holdfast_acquire_v1`. */
export function parseAcquireReply(answer: unknown): AcquireReply {
  const [is, first, second, third, holder] = answer as readonly unknown[]
  if (is === 'granted') return { is, token: Number(first), contended: second === 1 }
  if (is === 'over') return { is }
  if (is === 'limit') return { is, limit: Number(first) }
  return {
    is: 'blocked',
    place: Number(first),
    ticket: Number(second),
    left: ms(third),
    holder: Array.isArray(holder) ? toHolder(holder) : undefined,
  }
}

/** The one column of the one row, whatever its name: some clients rename columns. */
export function parseAnswer(rows: unknown): string {
  const [row] = rows as readonly object[]
  return String(Object.values(row ?? {})[0])
}
