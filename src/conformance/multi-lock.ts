import assert from 'node:assert/strict'
import { acquireInChild } from './child-process.js'
import { type Client, claimOf, waitOf } from './client.js'
import type { Fixture } from './fixture.js'
import type { It } from './suite.js'
import type { TestContext } from './test-context.js'

const all = ({ locks }: Client, names: readonly string[]) => locks.all(names.map((name) => locks.mutex(name)))

const everywhere = {
  'are taken and given back, each with a token of its own': async (stage, a) => {
    const b = stage.client()
    const names = [stage.name(), stage.name(), stage.name()]
    const first = await all(a, names).acquire()
    assert.deepEqual(
      first.leases.map(({ name }) => name),
      names,
    )
    for (const name of names) await stage.assertTaken(b, name)
    await first.extend()
    assert.equal(await first.release(), 'released')
    for (const [i, name] of names.entries()) {
      const lease = await b.locks.mutex(name).acquire()
      assert.ok(lease.token > (first.leases[i]?.token ?? Number.POSITIVE_INFINITY))
      await lease.release()
    }
  },

  'are all there or none: a try that misses one has none': async (stage, a) => {
    const b = stage.client()
    const names = [stage.name(), stage.name(), stage.name()]
    const [first = '', middle = '', last = ''] = names
    await stage.connected(a)
    await b.locks.mutex(middle).run(async () => {
      assert.equal(await all(a, names).tryAcquire(), undefined)
      for (const name of [first, last]) await stage.assertFree(b, name)
    })
    const lease = await all(a, names).acquire()
    assert.equal(await lease.release(), 'released')
  },

  'wait for what is held, and the time for the whole is bounded': async (stage, a) => {
    const b = stage.client()
    const names = [stage.name(), stage.name()]
    const [first = '', second = ''] = names.toSorted()
    await stage.connected(a, b)
    const held = await b.locks.mutex(second).acquire()
    await a.locks.mutex(first).run(() => undefined)
    // Long enough to reach the second lock on a busy machine.
    await assert.rejects(all(a, names).acquire({ wait: 2_500 }), { code: 'ACQUIRE_TIMEOUT', lock: second })
    await stage.assertFree(b, first)
    const waiting = all(a, names).acquire({ wait: Number.POSITIVE_INFINITY })
    await stage.queued(b, second, 1)
    await held.release()
    const lease = await stage.settlesInTime('both', waiting)
    assert.equal(await lease.release(), 'released')
  },

  'do not wait for each other in a ring when two sets cross': async (stage, a) => {
    const clients = [a, stage.client(), stage.client()]
    await stage.connected(...clients)
    const names = [stage.name(), stage.name(), stage.name()]
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
    await stage.settlesInTime(
      'all to have come and gone',
      Promise.all(clients.map((client, i) => visit(client, orders[i] ?? []))),
      4 * stage.timeout,
    )
  },
} satisfies Record<string, (stage: TestContext, client: Client) => Promise<void>>

/** For drivers that can take several locks in one step of the store. */
const inOneStep = {
  'are one request where they are free': async (stage, a) => {
    const names = [stage.name(), stage.name(), stage.name()]
    const before = a.asked()
    await all(a, names).run(() => undefined)
    assert.equal(a.asked() - before, 1)
  },

  'leave no trace in the store when one is not free': async (stage, a) => {
    const b = stage.client()
    const names = [stage.name(), stage.name()]
    const [first = '', second = ''] = names.toSorted()
    await stage.connected(a)
    await b.locks.mutex(first).run(() => undefined)
    const { lastToken } = await b.locks.inspect(first)
    await b.locks.mutex(second).run(async () => {
      assert.equal(await all(a, names).tryAcquire(), undefined)
    })
    assert.equal((await b.locks.inspect(first)).lastToken, lastToken, `${first} was held meanwhile`)
  },

  'pass nobody who waits for one of them': async (stage, a) => {
    const [b, c] = [stage.client(), stage.client()]
    const names = [stage.name(), stage.name()]
    const [first = ''] = names
    await stage.connected(a)
    const reader = b.driver.traits.modes.includes('shared')
      ? b.locks.readWrite(first).read
      : b.locks.mutex(first)
    const held = await reader.acquire()
    const writer = c.locks.mutex(first).acquire({ wait: Number.POSITIVE_INFINITY })
    await stage.queued(b, first, 1)
    const readers = names.map((name) =>
      a.driver.traits.modes.includes('shared') ? a.locks.readWrite(name).read : a.locks.mutex(name),
    )
    assert.equal(await a.locks.all(readers).tryAcquire(), undefined)
    await held.release()
    await (await stage.settlesInTime('the one who waited', writer)).release()
  },

  'answer a repeated request with the same tokens, and a release of one is not undone by it': async (
    stage,
    a,
  ) => {
    const b = stage.client()
    const claims = [claimOf(a, stage.name()), claimOf(a, stage.name())]
    await stage.connected(a)
    const first = await a.driver.acquireMany?.(claims, waitOf('once'))
    const again = await a.driver.acquireMany?.(claims, waitOf('once'))
    assert.ok(first !== undefined && again !== undefined)
    assert.deepEqual(
      again.map(({ token }) => token),
      first.map(({ token }) => token),
    )
    assert.equal(await again[0]?.release(), 'released')
    assert.equal(await a.driver.acquireMany?.(claims, waitOf('once')), undefined)
    await stage.assertFree(b, claims[0]?.name ?? '')
    await again[1]?.release()
  },

  'have nothing once their time is over although the answer was lost': async (stage, a) => {
    const b = stage.client()
    await stage.connected(a, b)
    const claims = [
      claimOf(a, stage.name(), { ttl: stage.ttl }),
      claimOf(a, stage.name(), { ttl: stage.ttl }),
    ]
    const wait = waitOf('once')
    await stage.cut(a)
    const asked = a.driver.acquireMany?.(claims, wait).catch(() => undefined)
    wait.end()
    await stage.heal()
    const grants = await stage.settlesInTime('an end', Promise.resolve(asked), 2 * stage.timeout)
    for (const grant of grants ?? []) await grant.release()
    for (const { name } of claims)
      await (await b.locks.mutex(name).acquire({ wait: 2 * stage.ttl + stage.timeout })).release()
  },
} satisfies Record<string, (stage: TestContext, client: Client) => Promise<void>>

export function together(it: It, { traits, childClient }: Fixture): void {
  const tests = { ...everywhere, ...(traits.acquireMany === true && inOneStep) }
  for (const [name, test] of Object.entries(tests)) it(name, (stage) => test(stage, stage.client()))

  it(`${traits.acquireMany === true ? 'have' : 'have no'} request of their own`, async (stage) => {
    assert.equal(stage.client().driver.acquireMany !== undefined, traits.acquireMany === true)
  })
  if (!traits.shared || childClient === undefined) return

  it('of a process killed with -9 are all free again', async (stage) => {
    const client = stage.client()
    const name = stage.name()
    const names = [name, `${name} too`]
    const child = acquireInChild(stage, childClient, name, stage.lasting, 'all')
    await child.received('granted')
    for (const one of names) await stage.assertTaken(client, one)
    await child.kill()
    const lease = await all(client, names).acquire({ wait: 2 * stage.lasting + stage.timeout })
    await lease.release()
  })
}
