/** What `top` knows: the newest list of locks, what changed since the one before, and what the user chose to see. */
import type { Holder, LockStatus, Waiter } from 'holdfast'

export interface Row {
  readonly name: string
  readonly holders: readonly Holder[]
  readonly waiters: readonly Waiter[]
  /** Waiters, including those that the store did not list. */
  readonly waiting: number
  /** How long the oldest holder has held, in ms; undefined: nobody holds it. */
  readonly heldFor: number | undefined
  /** Grants per second, as seen between two lists: at least so many. */
  readonly rate: number
}

export const sorts = ['waiting', 'held', 'rate', 'name'] as const
export type Sort = (typeof sorts)[number]

/** Remembers the holders of each name, to count grants between two lists. */
export class Rates {
  #before = new Map<string, ReadonlySet<string>>()
  #at: number | undefined

  /** @param now monotonic ms */
  rows(list: readonly LockStatus[], now: number): Row[] {
    const seconds =
      this.#at === undefined ? Number.POSITIVE_INFINITY : Math.max(0.001, (now - this.#at) / 1_000)
    const after = new Map<string, ReadonlySet<string>>()
    const rows = list.map((status) => {
      const { name, holders, waiters, unlisted = 0 } = status
      // A hand-over inside a process keeps the attempt and changes the token.
      const grants = new Set(holders.map(({ attempt, token }) => `${attempt} ${token}`))
      after.set(name, grants)
      const before = this.#before.get(name)
      let fresh = 0
      for (const grant of grants) if (before?.has(grant) !== true) fresh++
      const oldest = holders.reduce((most, { heldFor }) => Math.max(most, heldFor), 0)
      const heldFor = holders.length === 0 ? undefined : oldest
      return { name, holders, waiters, waiting: waiters.length + unlisted, heldFor, rate: fresh / seconds }
    })
    this.#before = after
    this.#at = now
    return rows
  }
}

/** The rows whose name, holder or note contains `filter`, in order; ties by name. */
export function chosen(rows: readonly Row[], filter: string, sort: Sort): Row[] {
  const wanted = filter.toLowerCase()
  const texts = ({ name, holders }: Row) => [
    name,
    ...holders.flatMap(({ client = '', note = '' }) => [client, note]),
  ]
  const found =
    wanted === ''
      ? [...rows]
      : rows.filter((row) => texts(row).some((text) => text.toLowerCase().includes(wanted)))
  const by: Record<Sort, (a: Row, b: Row) => number> = {
    waiting: (a, b) => b.waiting - a.waiting || (b.heldFor ?? -1) - (a.heldFor ?? -1),
    held: (a, b) => (b.heldFor ?? -1) - (a.heldFor ?? -1),
    rate: (a, b) => b.rate - a.rate,
    name: () => 0,
  }
  return found.sort((a, b) => by[sort](a, b) || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0))
}

export interface Totals {
  readonly names: number
  readonly held: number
  readonly waiting: number
}

export function totals(rows: readonly Row[]): Totals {
  let [held, waiting] = [0, 0]
  for (const row of rows) {
    held += row.holders.length
    waiting += row.waiting
  }
  return { names: rows.length, held, waiting }
}
