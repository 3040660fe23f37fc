/** Decodes the replies of the scripts into what operators and errors show. */
import type { Holder, LockStatus, Waiter } from '../../core/driver.js'
import { exclusive, type Mode, permits, shared } from '../../core/mode.js'
import type { Reply } from './client.js'

function parseMode(letter: string, take: number, of: number): Mode {
  if (letter === 's') return shared
  return letter === 'p' ? permits(take, of) : exclusive
}

const ms = (micros: unknown) => Number(micros) / 1000

/** From a row of `acquire`: attempt, mode, take, limit, token, µs held, µs left, by, note. */
export function toHolder(row: readonly Reply[]): Holder {
  const [attempt, letter, take, of, token, held, left, by, note] = row
  return {
    attempt: String(attempt),
    mode: parseMode(String(letter), Number(take), Number(of)),
    token: Number(token),
    heldFor: ms(held),
    expiresIn: ms(left),
    ...described(String(by), String(note)),
  }
}

/** From the reply of `inspect`: state, now, limit, holds as attempt, deadline, record …, waiters as attempt, record …, how many more. */
export function toLockStatus(name: string, reply: readonly Reply[]): LockStatus {
  const [state, now, of, holds, waits, more] = reply
  const [letter = '-', , , due, token, , owner = '-', ...record] = String(state).split(' ')
  const holders: Holder[] = []
  if (letter === 'x') {
    const [since, , by = '', ...note] = record
    const held = Number(now) - Number(since)
    const left = Number(due) - Number(now)
    holders.push(toHolder([owner, 'x', 1, 1, Number(token), held, left, by, note.join(' ')]))
  }
  for (const [attempt, deadline, text] of groups(holds as readonly Reply[], 3)) {
    const [its, take, since, , by = '', ...note] = String(text).split(' ')
    const held = Number(now) - Number(since)
    const left = Number(deadline) - Number(now)
    holders.push(
      toHolder([
        attempt ?? '',
        letter,
        Number(take),
        Number(of),
        Number(its),
        held,
        left,
        by,
        note.join(' '),
      ]),
    )
  }
  return {
    name,
    holders,
    waiters: groups(waits as readonly Reply[], 2).map((row) => toWaiter(row, Number(now))),
    lastToken: Number(token ?? 0),
    ...(Number(more) > 0 && { unlisted: Number(more) }),
  }
}

function toWaiter([attempt, text]: readonly Reply[], now: number): Waiter {
  const [letter = 'x', take, of, , , , since, by = '', ...note] = String(text).split(' ')
  return {
    attempt: String(attempt),
    mode: parseMode(letter, Number(take), Number(of)),
    waitedFor: ms(now - Number(since)),
    ...described(by, note.join(' ')),
  }
}

function described(by: string, note: string): { client?: string; note?: string } {
  return { ...(by !== '' && { client: by }), ...(note !== '' && { note }) }
}

function groups(list: readonly Reply[], size: number): readonly (readonly Reply[])[] {
  return Array.from({ length: list.length / size }, (_, i) => list.slice(i * size, (i + 1) * size))
}
