// One process of the kill loop: takes locks and counts in a file under them, writing everything down, until it is told to
// stop or killed. Says what it is doing, so that it can be killed while it does that.
import { closeSync, constants, openSync, readSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { createLocks, type DriverFactory, type Lease } from 'holdfast'
import type { ChildClient } from 'holdfast/conformance'
import { getAttempt, recorder, recordLocks } from 'holdfast/verify'

export interface KillTask {
  readonly childClient: ChildClient
  readonly folder: string
  readonly names: readonly string[]
  readonly ttl: number
}
export type Doing = 'idle' | 'waiting' | 'holding'

const task: KillTask = JSON.parse(process.argv[2] ?? '')
const say = (doing: Doing) => process.send?.(doing)
let stopping = false
process.on('message', () => {
  stopping = true
})
process.on('disconnect', () => process.exit(0))

const { module, export: exported, args = [] } = task.childClient
const make: (...args: unknown[]) => DriverFactory = (await import(module))[exported]
const journal = recorder(join(task.folder, `${process.pid}-${Date.now()}.jsonl`), { label: 'worker' })
const locks = recordLocks(createLocks(make(...args), { ttl: task.ttl, wait: 10_000 }), journal)

while (!stopping) {
  const name = task.names[Math.floor(Math.random() * task.names.length)]!
  const chance = Math.random()
  say('waiting')
  const lock = locks.mutex(name)
  const fair = locks.driver.traits.fair && chance < 0.4
  const asked = chance > 0.9 ? lock.tryAcquire() : lock.acquire({ fair })
  const lease = await asked.catch(expected)
  if (lease !== undefined) {
    say('holding')
    await section(name, lease)
    await lease.release()
  }
  say('idle')
  await pause(Math.random() * 3)
}
await locks.close()
journal.close()
process.disconnect()

/** Reads, dawdles, writes one more: without exclusion an update is lost. */
async function section(name: string, lease: Lease): Promise<void> {
  const about = { name, attempt: getAttempt(lease), token: lease.token }
  const file = openSync(join(task.folder, `${name}.count`), constants.O_RDWR | constants.O_CREAT)
  const digits = Buffer.alloc(12)
  journal.write({ ...about, op: 'read', phase: 'invoke' })
  const value = readSync(file, digits, 0, 12, 0) === 0 ? 0 : Number(digits.toString())
  journal.write({ ...about, op: 'read', phase: 'ok', value })
  await pause(1 + Math.random() * 10)
  if (lease.isHeld) {
    journal.write({ ...about, op: 'write', phase: 'invoke', value: value + 1 })
    writeSync(file, `${value + 1}`.padStart(12, '0'), 0)
    journal.write({ ...about, op: 'write', phase: 'ok', value: value + 1 })
  }
  closeSync(file)
}

function expected(error: { code?: unknown }): undefined {
  if (!['ACQUIRE_TIMEOUT', 'BACKEND', 'UNAVAILABLE'].includes(String(error.code))) throw error
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
