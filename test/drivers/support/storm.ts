// Many waiters of one process, most of which are aborted while the lock is passed on among them.
import assert from 'node:assert/strict'
import type { DriverFactory, Lease, Locks } from '../../../src/index.js'
import { until } from '../../support/until.js'
import { randomFrom } from '../../verify/simulate.js'

/** What every holder does: one at a time, with growing tokens, and the store names nobody else. */
export function work(other: Locks, name: string): (lease: Lease) => Promise<void> {
  let inside = 0
  let last = 0
  return async (lease) => {
    try {
      assert.equal(++inside, 1, 'two holders')
      assert.ok(lease.token > last, `token ${lease.token} came after ${last}`)
      last = lease.token
      const { holders } = await other.inspect(name)
      const tokens = holders.map(({ token }) => token)
      assert.deepEqual(tokens, [lease.token], 'the store names another token')
    } finally {
      inside--
      await lease.release()
    }
  }
}

export const forEver: { readonly wait: number } = { wait: Number.POSITIVE_INFINITY }
export const queued = (locks: Locks, name: string, n: number): Promise<unknown> =>
  until(async () => (await locks.inspect(name)).waiters.length >= n, { what: `${n} in the store's queue` })
export const nothingLeft = (locks: Locks, name: string): Promise<unknown> =>
  until(
    async () => {
      const { holders, waiters } = await locks.inspect(name)
      const listed = await locks.list(name)
      return holders.length + waiters.length + listed.length === 0
    },
    { what: 'the store to have nothing left' },
  )

/** 200 want the lock; at random moments after each grant some are aborted, until only five are left that may not be. */
export async function storm(
  a: Locks,
  b: Locks,
  name: string,
  seed: number,
): Promise<{ passed: number; kept: number }> {
  const random = randomFrom(seed)
  const does = work(b, name)
  const lost: unknown[] = []
  const fine = (running: Promise<void>) => running.catch((error: unknown) => void lost.push(error))
  let passed = 0
  let kept = 0
  const stops = Array.from({ length: 195 }, () => new AbortController())
  const first = await a.mutex(name).acquire()
  const wants = [...stops.map(({ signal }) => signal), ...Array.from({ length: 5 }, () => undefined)]
    .map((signal) => ({ signal, at: random() }))
    .sort((one, two) => one.at - two.at)
    .map(({ signal }) =>
      a
        .mutex(name)
        .acquire({ ...forEver, ...(signal && { signal }) })
        .then(
          async (lease) => {
            if (signal === undefined) kept++
            await fine(does(lease))
          },
          (error: unknown) => {
            if (signal?.aborted !== true) lost.push(error)
          },
        ),
    )
  a.on('granted', ({ handedOff }) => {
    if (handedOff) passed++
    const some = stops.splice(0, Math.ceil(random() * 12))
    setTimeout(() => some.forEach((stop) => void stop.abort()), random() * 4)
  })
  const others = b
    .mutex(name)
    .acquire(forEver)
    .then((lease) => fine(does(lease)))
  await queued(b, name, 1)
  await fine(does(first))
  await Promise.all([...wants, others])
  for (const error of lost) throw error
  return { passed, kept }
}

/** Passes on tokens of its own, without a request. */
export const inventing =
  (factory: DriverFactory): DriverFactory =>
  (env) => {
    const driver = factory(env)
    return {
      ...driver,
      async acquire(claim, wait) {
        const grant = await driver.acquire(claim, wait)
        if (grant === undefined) return undefined
        let { token } = grant
        return {
          token,
          get validUntil() {
            return grant.validUntil
          },
          renew: (ttl, signal) => grant.renew(ttl, signal),
          release: () => grant.release(),
          nextToken: async () => ++token,
          ...(grant.lost !== undefined && { lost: grant.lost }),
        }
      },
    }
  }
