/** Runs a story with many workers, and with one that is stopped between its last check and its write. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { createLocks, type Locks } from 'holdfast'
import { fenceSchema, mysql2, type Sql } from 'holdfast/guard'
import { mysql } from 'holdfast/mysql'
import { createPool } from 'mysql2/promise'
import { cron } from './cron.js'
import { earlyRelease } from './early-release.js'
import { Meeting } from './meeting.js'
import { orders } from './orders.js'
import { points } from './points.js'
import { stock } from './stock.js'
import type { Host, Mode, Story } from './story.js'

export const stories: Readonly<Record<string, Story>> = {
  'duplicate order': orders,
  'redeem against grant': points,
  'stock down to zero': stock,
  'release before commit': earlyRelease,
  'cron on many hosts': cron,
}

/** Of the process that is stopped: short, so that its lock is soon free. */
export const shortTtl = 1_000
const hosts = 4

export interface OpenHost extends Host {
  inspect: Locks['inspect']
  close(): Promise<void>
}

/** The locks have a small pool of their own, so that workers waiting for connections cannot keep them from being renewed. */
export function openHost(
  url: string,
  name: string,
  ttl = 30_000,
  watched: (db: Sql) => Sql = (db) => db,
): OpenHost {
  const pool = createPool({ uri: url, connectionLimit: 10 })
  const lockPool = createPool({ uri: url, connectionLimit: 4 })
  const locks = createLocks(mysql({ pool: lockPool }), { ttl })
  return {
    name,
    locks,
    inspect: (lock) => locks.inspect(lock),
    db: watched(mysql2(pool)),
    async transaction(fn) {
      const connection = await pool.getConnection()
      try {
        await connection.beginTransaction()
        const result = await fn(watched(mysql2(connection)))
        await connection.commit()
        return result
      } catch (error) {
        await connection.rollback()
        throw error
      } finally {
        connection.release()
      }
    },
    async close() {
      await locks.close()
      await pool.end()
      await lockPool.end()
    },
  }
}

async function prepare(db: Sql, story: Story): Promise<void> {
  for (const table of ['orders', 'accounts', 'ledger', 'stock', 'sales', 'runs'])
    await db.run(`drop table if exists ${table}`, [])
  for (const statement of [...story.tables, ...fenceSchema('mysql')]) await db.run(statement, [])
}

const short = () => new Promise<void>((resolve) => setTimeout(resolve, 2 + Math.random() * 3))

/** All workers at once, on four hosts. Resolves with the loss. */
export async function crowd(url: string, story: Story, mode: Mode): Promise<number> {
  const meeting = new Meeting(story.workers)
  const open = Array.from({ length: hosts }, (_, i) => openHost(url, `host ${i}`, undefined, meeting.watched))
  try {
    const [first] = open
    if (first === undefined) throw new Error('no host')
    await prepare(first.db, story)
    // Under the lock nobody else reads meanwhile: there is nobody to meet.
    const pause = mode === 'bare' ? meeting.pause : short
    const parts = Array.from({ length: story.workers }, (_, i) =>
      story.work(open[i % hosts] ?? first, mode, i, pause).finally(meeting.left),
    )
    await Promise.all(parts)
    return await story.loss(first.db)
  } finally {
    for (const host of open) await host.close()
  }
}

export interface Paused {
  readonly loss: number
  /** What the stopped worker got when it resumed: the code of its error, or nothing. */
  readonly told: string | undefined
}

/**
 * One worker is a process of its own. It is stopped (SIGSTOP) after it has read; another one waits until the lock is free and does
 * its part; then the first one continues (SIGCONT) and writes its result.
 */
export async function pausedHolder(url: string, name: string, mode: Exclude<Mode, 'bare'>): Promise<Paused> {
  const story = stories[name]
  if (story === undefined)
    throw new RangeError(`no story ${JSON.stringify(name)}; there are ${Object.keys(stories).join(', ')}`)
  const host = openHost(url, 'the other host')
  let child: ChildProcess | undefined
  try {
    await prepare(host.db, story)
    child = fork(new URL('./sleeper.js', import.meta.url), [url, name, mode])
    // Subscribed from the start: its exit may be reported before its last output.
    const gone = once(child, 'exit')
    const [first] = await once(child, 'message')
    if (first !== 'has read')
      throw new Error(`the worker said ${JSON.stringify(first)} instead of having read`)
    child.kill('SIGSTOP')
    await story.work(host, mode, 1, short)
    const told = once(child, 'message')
    child.kill('SIGCONT')
    child.send('go on')
    const [{ code }] = (await told) as [{ code?: string }]
    await gone
    return { loss: await story.loss(host.db), told: code }
  } finally {
    child?.kill('SIGKILL')
    await host.close()
  }
}
