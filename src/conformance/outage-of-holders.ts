import assert from 'node:assert/strict'
import { BackendError, type Lease, LeaseLostError } from 'holdfast'
import type { Client } from './client.js'
import type { Fixture } from './fixture.js'
import type { It } from './suite.js'
import { pause, type TestContext } from './test-context.js'

export function outageOfHolders(it: It, { faults, traits }: Fixture): void {
  it('of one client is told as such by every verb of a holder', async (context) => {
    const client = context.client()
    const verbs = await holding(context, client, traits)
    await context.cut(client)
    await areUnavailable(context, verbs)
    await context.heal()
  })

  if (faults.stop === undefined) return

  it('of all is told as such by every verb of a holder', async (context) => {
    const verbs = await holding(context, context.client(), traits)
    await context.stop()
    await areUnavailable(context, verbs)
    await context.heal()
  })
}

/** Holds what the verbs of a holder need. */
async function holding(context: TestContext, { locks }: Client, traits: Fixture['traits']): Promise<Verbs> {
  // Long enough to be held still when the store is gone, and short enough to wait for its end.
  const ttl = Math.max(context.ttl, 8_000)
  const held = await locks.mutex(context.name('extended')).acquire({ ttl })
  const verbs: Verbs = {}
  if (traits.cells === true) {
    const term = await locks.election(context.name('led')).campaign('before', { ttl })
    verbs.proclaim = { ask: () => term.proclaim('after'), longest: ttl }
    if (traits.portable === true) {
      const travels = await locks.mutex(context.name('exported')).acquire({ ttl })
      verbs.export = { ask: () => locks.export(travels), longest: ttl }
    }
    if (traits.modes.includes('shared')) {
      const entry = await locks.barrier(context.name('left'), 1).enter({ ttl })
      verbs['barrier.leave'] = { ask: () => entry.leave({ wait: 300 }), longest: 1_000 }
    }
  }
  // A proof right before the outage, so that the case below happens every time. A busy machine may not give it in time.
  await held.extend().catch(() => undefined)
  const over = performance.now() + held.remaining()
  return { extend: { ask: () => extendUntilRefused(held), longest: ttl / 3, over }, ...verbs }
}

/** A renewal may be answered with a proof from a moment before the store was gone. */
async function extendUntilRefused(lease: Lease): Promise<never> {
  for (;;) {
    await lease.extend()
    await pause(10)
  }
}

interface Verb {
  readonly ask: () => Promise<unknown>
  /** How long it tries, in ms. */
  readonly longest: number
  /** The clock reading at which its lease expires. On a machine that stalls, that may be before the store is asked. */
  readonly over?: number
}
type Verbs = Record<string, Verb>

async function areUnavailable(context: TestContext, verbs: Verbs): Promise<void> {
  const begin = performance.now()
  const refused = Object.entries(verbs).map(
    async ([verb, { ask, longest, over = Number.POSITIVE_INFINITY }]) => {
      const error = await ask().catch((error: unknown) => error)
      const took = performance.now() - begin
      if (error instanceof LeaseLostError && error.why === 'expired' && begin + took >= over) return
      assert.ok(error instanceof BackendError, `${verb}: ${error}`)
      assert.equal(error.code, 'UNAVAILABLE', `${verb}: ${error}`)
      const { tried = -1 } = error
      assert.ok(tried > 0 && tried <= Math.ceil(took), `${verb} took ${took} ms: ${error}`)
      assert.ok(took < longest + context.timeout, `${verb} took ${took} ms`)
      assert.match(error.message, new RegExp(`within ${Math.round(tried)} ms`))
    },
  )
  await context.settlesInTime('every verb to end', Promise.all(refused), 10_000 + context.timeout)
}
