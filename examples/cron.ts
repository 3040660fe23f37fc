/**
 * Cron on many hosts: croner fires on every host, and one host does the work. Skipping while the lock is held is not enough: a host whose
 * clock is behind by more than the duration of the job finds the lock free again. So the result is kept for the slot: `locks.once` with
 * the slot's time in its name runs once per slot, however far the clocks differ, as long as `keep` lasts.
 */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Cron } from 'croner'
import { createLocks } from 'holdfast'
import { local } from 'holdfast/local'

const hosts = ['one', 'two', 'three']
const runs: string[] = []
const directory = await mkdtemp(join(tmpdir(), 'holdfast-example-'))
const clients = hosts.map(() => createLocks(local({ directory })))

/** The scheduled time, not the current time: it is the same on every host, whatever its clock says. */
const slotOf = (due: Date | null) => (due ?? new Date()).toISOString().slice(0, 19)

async function nightly(host: string, slot: string): Promise<string> {
  const locks = clients[hosts.indexOf(host)]
  if (locks === undefined) throw new Error(`no host ${host}`)
  return locks.once(
    `cron:nightly:${slot}`,
    async (lease) => {
      runs.push(`${slot} on ${host}`)
      await new Promise((resolve) => setTimeout(resolve, 10))
      lease.assertHeld() // before anything that cannot be undone; pass lease.token to resources that can compare it
      return host
    },
    { keep: 3_600_000, keepError: 0, note: `nightly on ${host}` },
  )
}

const done: Promise<string>[] = []
const slots: string[] = []
// All hosts start with the same slot.
const startAt = new Date(Math.ceil(Date.now() / 1000) * 1000 + 1000)
const fired = new Promise<void>((resolve) => {
  for (const host of hosts) {
    const job = new Cron('* * * * * *', { maxRuns: 2, startAt }, () => {
      const slot = slotOf(due)
      due = job.nextRun()
      slots.push(slot)
      done.push(nightly(host, slot))
      if (done.length === 2 * hosts.length) resolve()
    })
    let due = job.nextRun()
  }
})
await fired
const workers = await Promise.all(done)

assert.equal(runs.length, 2, runs.join(', '))
// All three hosts of a slot get the same result.
assert.equal(new Set(workers.map((worker, at) => `${slots[at]} on ${worker}`)).size, 2)
// A host that is minutes late still finds it done.
const slot = runs[0]?.split(' ')[0] ?? ''
await nightly('three', slot)
assert.equal(runs.length, 2)
console.log(`three hosts, two slots: ${runs.join(', ')}`)
for (const locks of clients) await locks.close()
await rm(directory, { recursive: true })
