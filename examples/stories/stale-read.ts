/**
 * The lock was held all along, and the value was old: it came from a snapshot that the transaction took before it waited for the
 * lock, from a cache, or from a replica that is behind. Neither lock nor token helps: the writer *is* the newest holder.
 */
import type { Lease } from 'holdfast'
import { withVersion } from 'holdfast/guard'
import { type Host, numberFrom } from './story.js'

export const start = 1000
export const tables: readonly string[] = [
  'create table accounts (id int primary key, points int not null, version int not null default 0)',
  `insert into accounts (id, points) values (42, ${start})`,
]

const lockName = 'account:42'
const read = 'select points from accounts where id = 42'
const write = 'update accounts set points = ? where id = 42'

/** The transaction begins, and reads something, before the lock: from then on it sees that moment. */
export async function snapshotFirst(host: Host, change: number): Promise<void> {
  const lock = host.locks.mutex(lockName)
  const lease = await host.transaction(async (tx) => {
    await numberFrom(tx, 'select count(*) from accounts')
    const lease = await lock.acquire({ wait: 60_000 })
    await tx.run(write, [(await numberFrom(tx, read)) + change])
    return lease
  })
  await lease.release()
}

/** The same with the version of what was read in the write. @throws VersionConflictError instead of losing the other's change */
export async function snapshotFirstWithVersion(host: Host, change: number): Promise<void> {
  let lease: Lease | undefined
  try {
    await host.transaction(async (tx) => {
      await numberFrom(tx, 'select count(*) from accounts')
      lease = await host.locks.mutex(lockName).acquire({ wait: 60_000 })
      await withVersion(tx, { table: 'accounts', key: { id: 42 }, attempts: 1 }, ({ points }) => ({
        points: Number(points) + change,
      }))
    })
  } finally {
    await lease?.release()
  }
}

/** First the lock, then the transaction. */
export async function lockFirst(host: Host, change: number): Promise<void> {
  await host.locks.mutex(lockName).run(
    () =>
      host.transaction(async (tx) => {
        await numberFrom(tx, 'select count(*) from accounts')
        await tx.run(write, [(await numberFrom(tx, read)) + change])
      }),
    { wait: 60_000 },
  )
}

/** What this process last saw, as a cache or a replica that is behind has it. */
export async function fromCache(host: Host, cache: { points?: number }, change: number): Promise<void> {
  await host.locks.mutex(lockName).run(
    async () => {
      cache.points ??= await numberFrom(host.db, read)
      cache.points += change
      await host.db.run(write, [cache.points])
    },
    { wait: 60_000 },
  )
}
