// A request that arrives once more after a later one was answered: a client sent it again after a reconnection, or a proxy held it
// back. Each store's test says how its requests are recorded and sent again.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Lease } from '../../../src/core/lease.js'
import type { Locks } from '../../../src/create-locks.js'

/** A process, and a record of what it sends. */
export interface Recorded {
  readonly locks: Locks
  /** What was sent since the last look; the result sends it again, from somewhere else, and waits for the replies. */
  take(): () => Promise<void>
}

/** Much longer than any of these tests: no lease ends and none is renewed by itself meanwhile. */
const short = 200_000
const long = 600_000

const kinds = {
  'an exclusive lock': (locks: Locks, name: string) => locks.mutex(name),
  'a reader': (locks: Locks, name: string) => locks.readWrite(name).read,
  'a permit': (locks: Locks, name: string) => locks.semaphore(name, { permits: 3 }),
} as const

/** @param what the store's name, for the titles */
export function survivesLateCopies(what: string, record: (t: TestContext) => Recorded): void {
  for (const [kind, lockOf] of Object.entries(kinds)) {
    test(`${what}: a late copy of the acquire of ${kind} does not shorten an extended hold`, async (t) => {
      const { locks, take } = record(t)
      const lease = await lockOf(locks, kind).acquire({ ttl: short, autoRenew: false })
      const again = take()
      await lease.extend(long)
      await again()
      await lasts(locks, lease, long)
    })

    test(`${what}: a late copy of a shorter extend of ${kind} does not shorten a hold extended since`, async (t) => {
      const { locks, take } = record(t)
      const lease = await lockOf(locks, kind).acquire({ ttl: long, autoRenew: false })
      const copies: (() => Promise<void>)[] = []
      for (let round = 0; round < 3; round++) {
        take()
        await lease.extend(short)
        copies.push(take())
        await lasts(locks, lease, short)
        await lease.extend(long)
        for (const again of copies) await again()
        await lasts(locks, lease, long)
      }
      assert.equal(await lease.release(), 'released')
      for (const again of copies) await again()
      assert.deepEqual((await locks.inspect(kind)).holders, [])
    })
  }
}

/** A late copy of a longer request keeps the lock for longer than its holder believes: until the next renewal, not until it would have ended. */
export function undoesLongerCopies(what: string, record: (t: TestContext) => Recorded): void {
  for (const [kind, lockOf] of Object.entries(kinds)) {
    test(`${what}: what a late copy of the acquire of ${kind} prolongs, the next renewal ends as the holder believes`, async (t) => {
      const { locks, take } = record(t)
      const lease = await lockOf(locks, kind).acquire({ ttl: long, autoRenew: false })
      const again = take()
      await lease.extend(short)
      await lasts(locks, lease, short)
      await again()
      await lease.extend()
      await lasts(locks, lease, short)
      await lease.release()
    })
  }
}

/** The store has the hold end in `ttl` ms, as the holder believes. @param within ms by which it may be less */
export async function lasts(
  locks: Locks,
  lease: Lease,
  ttl: number,
  within: number = short / 2,
): Promise<void> {
  const [holder] = (await locks.inspect(lease.name)).holders
  const left = holder?.expiresIn ?? 0
  assert.ok(left <= ttl && left > ttl - within, `the hold ends in ${left} ms, not in ${ttl}`)
  assert.ok(lease.remaining() <= left, `its holder counts with ${lease.remaining()} ms of ${left}`)
}
