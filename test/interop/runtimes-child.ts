// A process of Bun, Deno or Node in the tests of the runtimes. Prints one line for each thing that has happened.
//
//   memory                          locks of one process: order, tokens, permits, a wait that times out
//   count KIND AT FILE TIMES        adds 1 to the number in the file so often, each time under the lock
//   hold KIND AT NAME TTL           takes the lock and keeps it until the process ends
//   wait KIND AT NAME               says that it waits, waits for the lock, then releases it
//
// KIND is `local`, `local-file` (both with a directory as AT), `ioredis` or `node-redis` (with a port).
import { readFileSync, writeFileSync } from 'node:fs'
import { AcquireTimeoutError, createLocks, type Locks } from 'holdfast'
import { local } from 'holdfast/local'
import { memory } from 'holdfast/memory'
import { redis } from 'holdfast/redis'
import { Redis } from 'ioredis'
import { createClient } from 'redis'

interface Opened {
  readonly locks: Locks
  readonly close: () => Promise<void>
}

const [task = '', kind = '', at = '', name = '', times = '0'] = process.argv.slice(2)

async function opened(): Promise<Opened> {
  if (kind === 'ioredis') {
    const client = new Redis({ port: Number(at) })
    return withClose(createLocks(redis({ client })), async () => client.disconnect())
  }
  if (kind === 'node-redis') {
    const client = createClient({ socket: { port: Number(at) } })
    await client.connect()
    return withClose(createLocks(redis({ client })), async () => client.destroy())
  }
  return withClose(createLocks(local({ directory: at, ...(kind === 'local-file' && { socket: 'file' }) })))
}

function withClose(locks: Locks, close = async () => {}): Opened {
  const both = async () => {
    await locks.close()
    await close()
  }
  return { locks, close: both }
}

async function inMemory(): Promise<void> {
  const locks = createLocks(memory())
  const order: string[] = []
  const enter = (who: string) =>
    locks.mutex('order').run(async (lease) => {
      order.push(`${who} in`)
      await new Promise((resolve) => setTimeout(resolve, 2))
      lease.assertHeld()
      order.push(`${who} out`)
    })
  await Promise.all(['a', 'b', 'c'].map(enter))
  console.log(order.join(', '))
  const first = await locks.semaphore('seats', { permits: 2 }).acquire({ permits: 2, autoRenew: false })
  const refused = await locks
    .semaphore('seats', { permits: 2 })
    .acquire({ wait: 20 })
    .catch((error: unknown) => error)
  console.log(refused instanceof AcquireTimeoutError, await first.release())
  console.log(`the clock keeps to itself: ${await usesItsTime(locks)}`)
  await locks.close()
}

/** Does a lease use no more of its ttl than the time that passes? A coarse clock of the machine could be taken for sleep. */
async function usesItsTime(locks: Locks): Promise<boolean> {
  const before = performance.now()
  const lease = await locks.mutex('clock').acquire({ ttl: '1h', autoRenew: false })
  const whole = lease.remaining()
  while (performance.now() - before < 2_500) {
    await new Promise((resolve) => setTimeout(resolve, 10))
    lease.assertHeld()
  }
  const used = whole - lease.remaining()
  const passed = performance.now() - before
  await lease.release()
  return used <= passed
}

async function count({ locks }: Opened): Promise<void> {
  const tokens: number[] = []
  for (let round = 0; round < Number(times); round += 1)
    await locks.mutex('count').run(async (lease) => {
      tokens.push(lease.token)
      const before = Number(readFileSync(name, 'utf8'))
      await new Promise((resolve) => setTimeout(resolve, 1))
      lease.assertHeld()
      writeFileSync(name, String(before + 1))
    })
  console.log(`tokens ${tokens.every((token, index) => index === 0 || token > (tokens[index - 1] ?? 0))}`)
}

if (task === 'memory') await inMemory()
else {
  const open = await opened()
  if (task === 'count') await count(open)
  if (task === 'hold') {
    const lease = await open.locks.mutex(name).acquire({ ttl: Number(times) || '1h' })
    console.log(`held ${lease.token}`)
    await new Promise((resolve) => setTimeout(resolve, 600_000))
  }
  if (task === 'wait') {
    let told = false
    open.locks.on('waiting', () => {
      if (!told) console.log('waiting')
      told = true
    })
    const lease = await open.locks.mutex(name).acquire({ wait: Number.POSITIVE_INFINITY })
    console.log(`granted ${lease.token}`)
    console.log(await lease.release())
  }
  await open.close()
}
console.log('closed')
