/**
 * The mode in which a lock is requested. The three modes share one name space: a mutex `x`, the write side of a
 * read/write lock `x` and a semaphore `x` all share one queue.
 */
export type Mode =
  | { readonly kind: 'exclusive' }
  | { readonly kind: 'shared' }
  | { readonly kind: 'permits'; readonly take: number; readonly of: number }

export type ModeKind = Mode['kind']

export const exclusive: Mode = Object.freeze({ kind: 'exclusive' })
export const shared: Mode = Object.freeze({ kind: 'shared' })

/** Asks for `take` of the `of` permits of a semaphore. Both are checked by `locks/semaphore.ts`. */
export function permits(take: number, of: number): Mode {
  return Object.freeze({ kind: 'permits', take, of })
}

/**
 * Can `asked` be held beside everything in `held`? This is the one rule of compatibility, used by every driver whose
 * backend does not bring its own: readers share with readers, permits with permits while the sum fits, and nothing
 * shares with an exclusive hold.
 */
export function admits(held: readonly Mode[], asked: Mode): boolean {
  if (held.length === 0) return true
  if (asked.kind === 'exclusive') return false
  let taken = 0
  for (const mode of held) {
    if (mode.kind !== asked.kind) return false
    if (mode.kind === 'permits') taken += mode.take
  }
  return asked.kind === 'shared' || taken + asked.take <= asked.of
}
