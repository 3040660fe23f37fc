/**
 * The race every lock library loses first: the wait ends while the grant is in transit. Many rounds, with slightly different timing, and a
 * ttl so long that a forgotten grant shows as a permanently taken lock.
 */
import assert from 'node:assert/strict'
import type { Lease } from 'holdfast'
import { type Client, createClaim, createWait } from './client.js'
import type { Fixture } from './fixture.js'
import type { It } from './suite.js'
import { expiredWait, pause, type TestContext } from './test-context.js'

const rounds = 40

export function cancelling(it: It, _fixture: Fixture): void {
  for (const [order, abortFirst] of [
    ['just after', false],
    ['just before', true],
  ] as const) {
    it(`by an abort ${order} the lock becomes free gives a lease or a reason, and never leaves the lock taken`, async (context) => {
      const [a, b, c] = [context.client(), context.client(), context.client()]
      const name = context.name()
      for (let round = 0; round < rounds; round++) {
        const first = await a.locks.mutex(name).acquire()
        const stop = new AbortController()
        const reason = new Error(`round ${round}`)
        const counted = settledOnce(b.locks.mutex(name).acquire({ signal: stop.signal }))
        if (round % 3 !== 0) await context.queued(a, name, 1)
        if (abortFirst) stop.abort(reason)
        const released = abortFirst ? jitter(round).then(() => first.release()) : first.release()
        if (!abortFirst) await jitter(round)
        stop.abort(reason)
        await released
        const outcome = await context.settlesInTime('the race to be decided', counted)
        if ('lease' in outcome) {
          assert.equal(abortFirst, false, 'a lease was given to a caller who had gone')
          assert.equal(outcome.lease.isHeld, true)
          await outcome.lease.release()
        } else assert.equal(outcome.error, reason)
        await isFreeFor(context, c, name)
      }
    })
  }

  it('by its deadline while the grant is on its way never leaves the lock taken', async (context) => {
    const [a, b, c] = [context.client(), context.client(), context.client()]
    const name = context.name()
    for (let round = 0; round < rounds; round++) {
      const first = await a.locks.mutex(name).acquire()
      const wait = 5 + (round % 10)
      const counted = settledOnce(b.locks.mutex(name).acquire({ wait }))
      await pause(wait - 2)
      await first.release()
      const outcome = await context.settlesInTime('the race to be decided', counted)
      if ('lease' in outcome) await outcome.lease.release()
      else assert.match(String((outcome.error as { code?: unknown }).code), expiredWait.code)
      await isFreeFor(context, c, name)
    }
  })

  it('by closing while the grant is on its way never leaves the lock taken', async (context) => {
    const [a, c] = [context.client(), context.client()]
    const name = context.name()
    for (let round = 0; round < 8; round++) {
      const first = await a.locks.mutex(name).acquire()
      const b = context.client()
      const counted = settledOnce(b.locks.mutex(name).acquire())
      await context.queued(a, name, 1)
      const released = first.release()
      await jitter(round)
      await Promise.all([released, b.locks.close()])
      const outcome = await context.settlesInTime('the race to be decided', counted)
      if ('error' in outcome) assert.equal((outcome.error as { code?: unknown }).code, 'CLOSED')
      await isFreeFor(context, c, name)
    }
  })

  it('at the moment it is sent never leaves the lock taken', async (context) => {
    const [b, c] = [context.client(), context.client()]
    const name = context.name()
    for (let round = 0; round < rounds; round++) {
      const stop = new AbortController()
      const counted = settledOnce(b.locks.mutex(name).acquire({ signal: stop.signal }))
      await jitter(round)
      stop.abort(new Error('gone'))
      const outcome = await context.settlesInTime('the race to be decided', counted)
      if ('lease' in outcome) await outcome.lease.release()
      await isFreeFor(context, c, name)
    }
  })

  it('at the driver gives a grant or nothing, and nothing means that it left no trace', async (context) => {
    const [a, c] = [context.client(), context.client()]
    const name = context.name()
    for (let round = 0; round < rounds; round++) {
      const wait = createWait()
      const answer = a.driver.acquire(createClaim(a, name), wait)
      await jitter(round)
      wait.end()
      const grant = await context.settlesInTime('the driver to answer', answer)
      await grant?.release()
      await isFreeFor(context, c, name)
    }
  })
}

/** Immediately, after microtasks, after I/O, a little later. */
async function jitter(round: number): Promise<void> {
  const step = round % 8
  if (step === 1) await Promise.resolve()
  if (step === 2 || step === 3) await new Promise(setImmediate)
  if (step > 3) await pause((step - 4) * 0.7)
}

type Outcome = { readonly lease: Lease } | { readonly error: unknown }

/** Fails the test if a promise is seen to both resolve and reject, which a broken `then` chain can do. */
async function settledOnce(promise: Promise<Lease>): Promise<Outcome> {
  return promise.then(
    (lease) => ({ lease }),
    (error: unknown) => ({ error }),
  )
}

async function isFreeFor(context: TestContext, client: Client, name: string): Promise<void> {
  const lease = await client.locks.mutex(name).acquire({ wait: context.timeout })
  await lease.release()
}
