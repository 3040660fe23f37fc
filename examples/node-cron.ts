/**
 * node-cron on many hosts: `distributed: true` asks a run coordinator whether this host runs the slot. Here `locks.once` elects one
 * host for each slot, and keeps its name for as long as a host whose clock is behind may ask. A host that crashes after its election
 * leaves the slot undone; where that is not acceptable, put the work itself into `locks.once`, as in cron.ts.
 */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLocks, type Locks } from 'holdfast'
import { local } from 'holdfast/local'
import { createTask, type RunCoordinator } from 'node-cron'

/** `key` has the task's name and the slot; `ttlMs` is the task's `distributedLease`. */
export function coordinator(locks: Locks): RunCoordinator {
  return {
    async shouldRun(key, ttlMs) {
      const me = randomUUID()
      return (await locks.once(`cron:${key}`, () => me, { keep: ttlMs })) === me
    },
  }
}

const directory = await mkdtemp(join(tmpdir(), 'holdfast-example-'))
const runs: string[] = []
const asked = new Map<string, number>()

const hosts = ['one', 'two', 'three'].map((host) => {
  const locks = createLocks(local({ directory }))
  const elected = coordinator(locks)
  const task = createTask(
    '* * * * * *',
    ({ date }) => {
      runs.push(`${date.toISOString().slice(0, 19)} on ${host}`)
    },
    {
      name: 'nightly',
      distributed: true,
      distributedLease: 60_000,
      runCoordinator: {
        async shouldRun(key, ttlMs) {
          asked.set(key, (asked.get(key) ?? 0) + 1)
          return elected.shouldRun(key, ttlMs)
        },
      },
    },
  )
  return { locks, task }
})
for (const { task } of hosts) await task.start()
/** Slots for which every host has asked. */
const complete = () => [...asked.values()].filter((count) => count === hosts.length).length
while (complete() < 2) await new Promise((resolve) => setTimeout(resolve, 50))
for (const { task } of hosts) await task.stop()
// Hosts in the middle of a slot finish it.
await new Promise((resolve) => setTimeout(resolve, 100))

const slots = new Set(runs.map((run) => run.split(' ')[0]))
assert.equal(runs.length, slots.size, `a slot ran twice: ${runs.join(', ')}`)
console.log(`three hosts asked for every slot, and each ran once: ${runs.join(', ')}`)
for (const { locks, task } of hosts) {
  await task.destroy()
  await locks.close()
}
await rm(directory, { recursive: true })
