import assert from 'node:assert/strict'
import { acquireInChild } from './child-process.js'
import { type Client, createClaim, createWait } from './client.js'
import type { Fixture } from './fixture.js'
import type { It } from './suite.js'
import type { TestContext } from './test-context.js'

const all = ({ locks }: Client, names: readonly string[]) => locks.all(names.map((name) => locks.mutex(name)))

const everywhere = {
  'are acquired and released together, each with a token of its own': async (context, a) => {
    const b = context.client()
    const names = [context.name(), context.name(), context.name()]
    const first = await all(a, names).acquire()
    assert.deepEqual(
      first.leases.map(({ name }) => name),
      names,
    )
    for (const name of names) await context.assertHeld(b, name)
    await first.extend()
    assert.equal(await first.release(), 'released')
    for (const [i, name] of names.entries()) {
      const lease = await b.locks.mutex(name).acquire()
      assert.ok(lease.token > (first.leases[i]?.token ?? Number.POSITIVE_INFINITY))
      await lease.release()
    }
  },

  'are all held or none: a try that misses one holds none': async (context, a) => {
    const b = context.client()
    const names = [context.name(), context.name(), context.name()]
    const [first = '', middle = '', last = ''] = names
    await context.connected(a)
    await b.locks.mutex(middle).run(async () => {
      assert.equal(await all(a, names).tryAcquire(), undefined)
      for (const name of [first, last]) await context.assertFree(b, name)
    })
    const lease = await all(a, names).acquire()
    assert.equal(await lease.release(), 'released')
  },

  'wait for what is held, and the time for the whole is bounded': async (context, a) => {
    const b = context.client()
    const names = [context.name(), context.name()]
    const [first = '', second = ''] = names.toSorted()
    await context.connected(a, b)
    const held = await b.locks.mutex(second).acquire()
    await a.locks.mutex(first).run(() => undefined)
    // Long enough to reach the second lock on a busy machine.
    await assert.rejects(all(a, names).acquire({ wait: 2_500 }), { code: 'ACQUIRE_TIMEOUT', lock: second })
    await context.assertFree(b, first)
    const waiting = all(a, names).acquire({ wait: Number.POSITIVE_INFINITY })
    await context.queued(b, second, 1)
    await held.release()
    const lease = await context.settlesInTime('both', waiting)
    assert.equal(await lease.release(), 'released')
  },

  'do not deadlock when two sets overlap': async (context, a) => {
    const clients = [a, context.client(), context.client()]
    await context.connected(...clients)
    const names = [context.name(), context.name(), context.name()]
    const inside = new Map(names.map((name) => [name, 0]))
    const visit = async (client: Client, order: readonly string[]) => {
      for (let round = 0; round < 5; round++)
        await all(client, order).run(async () => {
          for (const name of order) {
            inside.set(name, (inside.get(name) ?? 0) + 1)
            assert.equal(inside.get(name), 1, `two are inside ${name}`)
          }
          await new Promise(setImmediate)
          for (const name of order) inside.set(name, (inside.get(name) ?? 0) - 1)
        })
    }
    const orders = [names.slice(0, 2), names.slice(1).reverse(), [names[2] ?? '', names[0] ?? '']]
    await context.settlesInTime(
      'all to have come and gone',
      Promise.all(clients.map((client, i) => visit(client, orders[i] ?? []))),
      4 * context.timeout,
    )
  },
} satisfies Record<string, (context: TestContext, client: Client) => Promise<void>>

/** For drivers that can take several locks in one step of the store. */
const inOneStep = {
  'are one request where they are free': async (context, a) => {
    const names = [context.name(), context.name(), context.name()]
    const before = a.asked()
    await all(a, names).run(() => undefined)
    assert.equal(a.asked() - before, 1)
  },

  'leave no trace in the store when one is not free': async (context, a) => {
    const b = context.client()
    const names = [context.name(), context.name()]
    const [first = '', second = ''] = names.toSorted()
    await context.connected(a)
    await b.locks.mutex(first).run(() => undefined)
    const { lastToken } = await b.locks.inspect(first)
    await b.locks.mutex(second).run(async () => {
      assert.equal(await all(a, names).tryAcquire(), undefined)
    })
    assert.equal((await b.locks.inspect(first)).lastToken, lastToken, `${first} was held meanwhile`)
  },

  'overtake no waiter of any of them': async (context, a) => {
    const [b, c] = [context.client(), context.client()]
    const names = [context.name(), context.name()]
    const [first = ''] = names
    await context.connected(a)
    const reader = b.driver.traits.modes.includes('shared')
      ? b.locks.readWrite(first).read
      : b.locks.mutex(first)
    const held = await reader.acquire()
    const writer = c.locks.mutex(first).acquire({ wait: Number.POSITIVE_INFINITY })
    await context.queued(b, first, 1)
    const readers = names.map((name) =>
      a.driver.traits.modes.includes('shared') ? a.locks.readWrite(name).read : a.locks.mutex(name),
    )
    assert.equal(await a.locks.all(readers).tryAcquire(), undefined)
    await held.release()
    await (await context.settlesInTime('the one who waited', writer)).release()
  },

  'answer a repeated request with the same tokens, and a release of one is not undone by it': async (
    context,
    a,
  ) => {
    const b = context.client()
    const claims = [createClaim(a, context.name()), createClaim(a, context.name())]
    await context.connected(a)
    const first = await a.driver.acquireMany?.(claims, createWait('once'))
    const again = await a.driver.acquireMany?.(claims, createWait('once'))
    assert.ok(first !== undefined && again !== undefined)
    assert.deepEqual(
      again.map(({ token }) => token),
      first.map(({ token }) => token),
    )
    assert.equal(await again[0]?.release(), 'released')
    assert.equal(await a.driver.acquireMany?.(claims, createWait('once')), undefined)
    await context.assertFree(b, claims[0]?.name ?? '')
    await again[1]?.release()
  },

  'hold nothing once their time is over although the reply was lost': async (context, a) => {
    const b = context.client()
    await context.connected(a, b)
    const claims = [
      createClaim(a, context.name(), { ttl: context.ttl }),
      createClaim(a, context.name(), { ttl: context.ttl }),
    ]
    const wait = createWait('once')
    await context.cut(a)
    const asked = a.driver.acquireMany?.(claims, wait).catch(() => undefined)
    wait.end()
    await context.heal()
    const grants = await context.settlesInTime('an end', Promise.resolve(asked), 2 * context.timeout)
    for (const grant of grants ?? []) await grant.release()
    for (const { name } of claims)
      await (await b.locks.mutex(name).acquire({ wait: 2 * context.ttl + context.timeout })).release()
  },
} satisfies Record<string, (context: TestContext, client: Client) => Promise<void>>

export function together(it: It, { traits, childClient }: Fixture): void {
  const tests = { ...everywhere, ...(traits.acquireMany === true && inOneStep) }
  for (const [name, test] of Object.entries(tests)) it(name, (context) => test(context, context.client()))

  it(`${traits.acquireMany === true ? 'have' : 'have no'} request of their own`, async (context) => {
    assert.equal(context.client().driver.acquireMany !== undefined, traits.acquireMany === true)
  })
  if (!traits.shared || childClient === undefined) return

  it('of a process killed with -9 are all free again', async (context) => {
    const client = context.client()
    const name = context.name()
    const names = [name, `${name} too`]
    const child = acquireInChild(context, childClient, name, context.lasting, 'all')
    await child.received('granted')
    for (const one of names) await context.assertHeld(client, one)
    await child.kill()
    const lease = await all(client, names).acquire({ wait: 2 * context.lasting + context.timeout })
    await lease.release()
  })
}
