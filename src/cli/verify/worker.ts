/** A process of the fault run: takes locks whose names only this run uses, and records everything, until it is stopped or killed. */
import { on } from 'node:events'
import { join } from 'node:path'
import { createLocks, type Lease, type Locks } from 'holdfast'
import { inProcess } from 'holdfast/conformance'
import { recorder, recordLocks, watchStarvation } from 'holdfast/verify'
import { target } from '../connect.js'

export interface Task {
  readonly url: string
  /** `--insecure`, which no URL contains. */
  readonly insecure: boolean
  readonly folder: string
  /** Prefix of every lock name. */
  readonly prefix: string
  readonly ttl: number
}
/** `cut`: cuts this process's connection; `block`: blocks its event loop. */
export type Order = { readonly do: 'cut' | 'heal' | 'stop' } | { readonly do: 'block'; readonly ms: number }

// Buffers messages that arrive before we can act on them: an order to stop may come right after the task.
const messages = on(process, 'message')
const task: Task = (await messages.next()).value[0]
const connection = await target(task.url, { insecure: task.insecure }).connect()
const { make, faults } = inProcess(() => connection.driver)
const factory = make()
const journal = recorder(join(task.folder, `${process.pid}-${Date.now()}.jsonl`), { label: 'worker' })
const unwatch = watchStarvation(journal)
const locks = recordLocks(createLocks(factory, { ttl: task.ttl, wait: 3 * task.ttl }), journal)
let stopping = false

// The run's time starts here.
const off = locks.on('granted', () => {
  off()
  process.send?.('granted')
})
process.on('disconnect', () => process.exit(0))
void handleOrders()

await Promise.all([lane(), lane(), lane()])
await locks.close()
await connection.close()
unwatch()
journal.close()
process.disconnect()

async function handleOrders(): Promise<void> {
  for await (const [order] of messages as AsyncIterable<[Order]>) {
    if (order.do === 'stop') stopping = true
    else if (order.do === 'cut') void faults.cut(factory)
    else if (order.do === 'heal') void faults.heal()
    // Blocks this process without taking processor time from the servers.
    else if (order.do === 'block') Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, order.ms)
  }
}

async function lane(): Promise<void> {
  while (!stopping) {
    const lease = await acquireOnce(locks).catch(expected)
    if (lease === undefined) await pause(10 * Math.random())
    else {
      await pause(Math.random() < 0.1 ? task.ttl * Math.random() : 5 * Math.random())
      await lease.release()
    }
  }
}

function acquireOnce(locks: Locks): Promise<Lease | undefined> {
  const { modes, fair } = locks.driver.traits
  const kind = Math.random()
  if (kind < 0.2 && modes.includes('shared')) {
    const { read, write } = locks.readWrite(`${task.prefix}page`)
    return (Math.random() < 0.7 ? read : write).acquire()
  }
  if (kind < 0.4 && modes.includes('permits')) {
    return locks
      .semaphore(`${task.prefix}seats`, { permits: 3 })
      .acquire({ permits: Math.random() < 0.5 ? 1 : 2 })
  }
  const lock = locks.mutex(`${task.prefix}${Math.random() < 0.5 ? 'ledger' : 'stock'}`)
  if (Math.random() < 0.1) return lock.tryAcquire()
  return lock.acquire({ fair: fair && Math.random() < 0.3 })
}

function expected(error: { code?: unknown }): undefined {
  if (!['ACQUIRE_TIMEOUT', 'BACKEND', 'UNAVAILABLE'].includes(String(error.code))) throw error
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
