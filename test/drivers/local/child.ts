// A process of its own that takes locks as it is told over the channel of `fork`. See `processes.ts`.
import { spawn } from 'node:child_process'
import { createLocks, type Lease } from 'holdfast'
import { type LocalOptions, local } from 'holdfast/local'
import type { Order } from './processes.js'

const options: LocalOptions = JSON.parse(process.argv[2] ?? '{}')
// Whoever waits in a test waits until what the test does about it has happened, however busy the machine is.
const locks = createLocks(local(options), { wait: 120_000 })
const leases = new Map<number, Lease>()
const doubted: string[] = []
const losses: string[] = []
locks.on('doubtful', ({ name }) => doubted.push(name))
locks.on('lost', ({ why }) => losses.push(why))

async function obey(order: Order): Promise<unknown> {
  switch (order.do) {
    case 'acquire': {
      const lock = order.shared ? locks.readWrite(order.name).read : locks.mutex(order.name)
      const lease = await lock.acquire(order.options)
      leases.set(order.id, lease)
      return { token: lease.token, at: Number(process.hrtime.bigint()) / 1e6 }
    }
    case 'try': {
      const lease = await locks.mutex(order.name).tryAcquire()
      if (lease) leases.set(order.id, lease)
      return lease?.token
    }
    case 'waiters':
      return (await locks.inspect(order.name)).waiters.length
    case 'release':
      return leases.get(order.lease)?.release()
    case 'state':
      return leases.get(order.lease)?.state
    case 'aborted':
      return leases.get(order.lease)?.signal.aborted
    case 'doubted':
      return doubted
    case 'losses':
      return losses
    case 'block':
      setImmediate(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, order.ms))
      return undefined
    case 'bear': {
      const child = spawn(process.execPath, ['-e', 'setTimeout(() => {}, 60_000)'], {
        detached: true,
        stdio: 'ignore',
      })
      child.unref()
      return child.pid
    }
    case 'close':
      await locks.close()
      return undefined
  }
}

process.on('disconnect', () => process.exit())
process.on('message', async (order: Order) => {
  try {
    process.send?.({ id: order.id, value: await obey(order) })
  } catch (error) {
    const { name, message, code } = error as Error & { code?: string }
    process.send?.({ id: order.id, error: { name, message, code } })
  }
})
process.send?.({ id: 0 })
