/**
 * What every story is made of. Each reads, decides and writes, as applications do, with a pause in between that stands for a slow
 * query, a busy host or a stopped process. It is told three times: without a lock, under a lock, and under a lock with the
 * write guarded by its token.
 */
import type { Lease, Locks } from 'holdfast'
import type { Fence, Sql } from 'holdfast/guard'

export type Mode = 'bare' | 'locked' | 'guarded'

/** One process of the application. */
export interface Host {
  readonly name: string
  readonly locks: Pick<Locks, 'mutex'>
  /** Statements outside of transactions. */
  readonly db: Sql
  transaction<R>(fn: (tx: Sql) => Promise<R>): Promise<R>
}

export interface Story {
  /** How many work at the same time. */
  readonly workers: number
  /** Statements that make its tables and first rows. */
  readonly tables: readonly string[]
  /** One worker's part. `pause` stands between reading and writing. */
  work(host: Host, mode: Mode, worker: number, pause: () => Promise<void>): Promise<void>
  /** How much is wrong in the end; 0: nothing. */
  loss(db: Sql): Promise<number>
}

/** Under the lock, unless the story is told without one. */
export function under(
  host: Host,
  mode: Mode,
  name: string,
  fn: (lease: Lease | undefined) => Promise<void>,
): Promise<void> {
  return mode === 'bare' ? fn(undefined) : host.locks.mutex(name).run(fn, { wait: 60_000 })
}

/**
 * What to guard with, where the story is told with a guard. Only name and token: given the lease itself, a guard asks it first whether
 * it is held, and the stopped holder would learn it from its own clock. A stop can also come after that question.
 */
export function fenceOf(mode: Mode, lease: Lease | undefined): Fence | undefined {
  return mode === 'guarded' && lease !== undefined ? { name: lease.name, token: lease.token } : undefined
}

export async function numberFrom(db: Sql, text: string, ...values: unknown[]): Promise<number> {
  const [row] = (await db.run(text, values)).rows
  return Number(Object.values(row ?? {})[0] ?? 0)
}
