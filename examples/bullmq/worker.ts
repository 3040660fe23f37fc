/**
 * A BullMQ worker whose jobs of one account run one at a time, however many workers there are. Needs Redis at REDIS_URL.
 *
 * BullMQ gives a job to a second worker when the first was silent for too long, and it runs jobs of one account
 * concurrently. The lock closes the second gap, the fence the first: the store refuses a worker that was presumed dead
 * and wakes up.
 */
import { Queue, Worker } from 'bullmq'
import { createLocks } from 'holdfast'
import { fenceKey, guardedCommands } from 'holdfast/guard'
import { redis } from 'holdfast/redis'
import { Redis } from 'ioredis'

const url = process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379'
// BullMQ needs a connection that waits forever; the locks have their own time-outs and accept any.
const connection = { url, maxRetriesPerRequest: null }
const client = new Redis(url)
const locks = createLocks(redis({ client }))

interface Redeem {
  readonly account: number
  readonly points: number
}

const queue = new Queue<Redeem>('redeem', { connection })
const worker = new Worker<Redeem>(
  'redeem',
  async ({ data: { account, points }, id }) => {
    const key = `points:{${account}}`
    await locks.mutex(`account:${account}`).run(
      async (lease) => {
        const balance = Number((await client.get(key)) ?? 0)
        if (balance < points) throw new Error(`account ${account} has ${balance} points, not ${points}`)
        await guardedCommands(client, {
          fence: lease,
          fenceKey: fenceKey(key),
          keys: [key],
          commands: [['SET', key, balance - points]],
        })
      },
      { wait: 10_000, note: `job ${id}` },
    )
  },
  { connection, concurrency: 5 },
)

await client.set('points:{42}', 100)
const done = new Promise<void>((resolve) => {
  let count = 0
  worker.on('completed', () => ++count === 10 && resolve())
})
await queue.addBulk(Array.from({ length: 10 }, () => ({ name: 'redeem', data: { account: 42, points: 10 } })))
await done
console.log(`ten redemptions of 10 points: ${await client.get('points:{42}')} left`)

await worker.close()
await queue.close()
await locks.close()
client.disconnect()
