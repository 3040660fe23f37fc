// Long because it is a list of tests that share their helpers.
import assert from 'node:assert/strict'
import { acquireInChild } from './child-process.js'
import type { Fixture } from './fixture.js'
import type { It } from './suite.js'
import { pause } from './test-context.js'

export function permits(it: It, { traits, childClient }: Fixture): void {
  if (!traits.modes.includes('permits')) {
    it('are refused when they are made', async (context) => {
      const { locks } = context.client()
      assert.throws(() => locks.semaphore(context.name(), { permits: 2 }), { code: 'UNSUPPORTED' })
    })
    return
  }

  it('are granted as long as there are any, across clients, and the next when one is released', async (context) => {
    const [a, b, c] = [context.client(), context.client(), context.client()]
    const name = context.name()
    const leases = []
    await context.connected(c)
    for (const client of [a, b, a]) leases.push(await client.locks.semaphore(name, { permits: 3 }).acquire())
    assert.equal(await c.locks.semaphore(name, { permits: 3 }).tryAcquire(), undefined)
    const next = c.locks.semaphore(name, { permits: 3 }).acquire()
    await context.queued(a, name, 1)
    await leases[1]?.release()
    const fourth = await context.settlesInTime('a permit', next)
    assert.equal(await b.locks.semaphore(name, { permits: 3 }).tryAcquire(), undefined)
    for (const lease of [leases[0], leases[2], fourth]) await lease?.release()
  })

  it('count by weight', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    const of = { permits: 5 }
    await context.connected(b)
    const three = await a.locks.semaphore(name, of).acquire({ permits: 3 })
    assert.equal(await b.locks.semaphore(name, of).tryAcquire({ permits: 3 }), undefined)
    const two = await b.locks.semaphore(name, of).tryAcquire({ permits: 2 })
    assert.ok(two !== undefined)
    assert.equal(await a.locks.semaphore(name, of).tryAcquire(), undefined)
    await three.release()
    await two.release()
    const five = await b.locks.semaphore(name, of).acquire({ permits: 5, wait: context.timeout })
    await five.release()
  })

  it('never exceed the limit under load', async (context) => {
    const clients = [context.client(), context.client(), context.client()]
    const name = context.name()
    let taken = 0
    let most = 0
    let inside = 0
    let together = 0
    const work = clients.flatMap((client) =>
      Array.from({ length: 10 }, (_, i) => {
        const weight = 1 + (i % 3)
        const section = async () => {
          taken += weight
          most = Math.max(most, taken)
          together = Math.max(together, ++inside)
          // The first holder stays until another joins: it has one permit, and any other request fits beside it.
          await context.until('two to be in at once', () => together > 1, context.timeout * 2)
          await pause(2)
          inside--
          taken -= weight
        }
        return client.locks
          .semaphore(name, { permits: 4 })
          .run(section, { permits: weight, wait: context.timeout * 4 })
      }),
    )
    await Promise.all(work)
    assert.ok(most <= 4, `${most} permits of 4 were taken at once`)
  })

  it('do not starve a large request while small ones keep coming', async (context) => {
    const clients = [context.client(), context.client()]
    const name = context.name()
    const of = { permits: 3 }
    let go = true
    const small = async (client: (typeof clients)[number], offset: number) => {
      await pause(offset)
      while (go) await client.locks.semaphore(name, of).run(() => pause(12))
    }
    const work = clients.flatMap((client, i) => [small(client, i * 4), small(client, i * 4 + 6)])
    context.cleanup(async () => {
      go = false
      await Promise.all(work)
    })
    await pause(30)
    const large = await context
      .client()
      .locks.semaphore(name, of)
      .acquire({ permits: 3, wait: context.timeout })
    await large.release()
  })

  it('refuse two users with different limits', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    const lease = await a.locks.semaphore(name, { permits: 3 }).acquire()
    const refused = b.locks.semaphore(name, { permits: 4 }).acquire({ wait: context.timeout })
    await assert.rejects(
      refused,
      (error: Error) => error instanceof RangeError && /3/.test(error.message) && /4/.test(error.message),
    )
    assert.equal(lease.isHeld, true)
    await lease.release()
  })

  it('refuse a wrong limit beside right ones, and no right one with it', async (context) => {
    const [a, b, c] = [context.client(), context.client(), context.client()]
    const name = context.name()
    await context.connected(a, b, c)
    const lease = await a.locks.semaphore(name, { permits: 3 }).acquire()
    const [right, wrong] = [b.locks.semaphore(name, { permits: 3 }), c.locks.semaphore(name, { permits: 4 })]
    const rightly = async () => {
      for (let n = 0; n < 20; n++) await right.run(() => undefined, { wait: 2 * context.timeout })
    }
    const wrongly = async () => {
      for (let n = 0; n < 20; n++)
        await assert.rejects(wrong.acquire({ wait: 2 * context.timeout }), { name: 'RangeError' })
    }
    await Promise.all([rightly(), wrongly(), wrongly()])
    await lease.release()
  })

  it('refuse a wrong limit, and then give the right one to the same client', async (context) => {
    const [a, b] = [context.client(), context.client()]
    await context.connected(b)
    const { timeout: wait } = context
    for (const single of [false, true]) {
      const name = context.name()
      const right = { permits: 5 }
      const wrong = b.locks.semaphore(name, { permits: 3 })
      // While no other client uses the name, any limit is accepted.
      if (single) await wrong.run(() => undefined)
      const lease = await a.locks.semaphore(name, right).acquire()
      const refused = { name: 'RangeError', message: /has 5 permits .* got permits: 3/ }
      await assert.rejects(single ? wrong.tryAcquire() : wrong.acquire({ wait }), refused)
      const beside = await b.locks.semaphore(name, right).acquire({ wait })
      // Now this client knows the limit, and checks it without the store.
      assert.throws(() => b.locks.semaphore(name, { permits: 3 }), refused)
      await assert.rejects(wrong.acquire({ wait }), refused)
      await b.locks.semaphore(name, right).run(() => undefined, { wait })
      await beside.release()
      await lease.release()
    }
  })

  it('refuse more permits than there are before anything is sent', async (context) => {
    const client = context.client()
    const lock = client.locks.semaphore(context.name(), { permits: 3 })
    for (const permits of [4, 0, -1, 1.5, Number.NaN])
      await assert.rejects(lock.acquire({ permits }), RangeError)
    assert.equal(client.asked(), 0)
  })

  it('are renewed like any other lease, and inspect reports how many each holder has', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    const of = { permits: 3 }
    // Long enough that a busy machine does not lose it for lack of a renewal.
    const ttl = Math.max(context.ttl, 2_000)
    const two = await a.locks.semaphore(name, of).acquire({ permits: 2, ttl, note: 'film' })
    const one = await b.locks.semaphore(name, of).acquire()
    const holders = async () => {
      const standing = await b.locks.inspect(name)
      return standing.holders.filter(({ expiresIn }) => expiresIn > 0).toSorted((x, y) => x.token - y.token)
    }
    const both = [
      [two.token, { kind: 'permits', take: 2, of: 3 }, 'film'],
      [one.token, { kind: 'permits', take: 1, of: 3 }, undefined],
    ]
    const held = async () => (await holders()).map(({ token, mode, note }) => [token, mode, note])
    assert.deepEqual(await held(), both)
    const older = async () => ((await holders())[0]?.heldFor ?? 0) > 1.2 * ttl
    await context.until('it to be held for longer than its ttl', older, 2 * ttl + context.timeout)
    two.assertHeld()
    assert.deepEqual(await held(), both)
    assert.equal(await b.locks.semaphore(name, of).tryAcquire(), undefined)
    await two.release()
    await one.release()
  })
  if (!traits.shared || childClient === undefined) return

  it('of a process killed with -9 are free again', async (context) => {
    const client = context.client()
    const { locks } = client
    const name = context.name()
    const child = acquireInChild(context, childClient, name, context.ttl, 'semaphore')
    await context.connected(client)
    const { token } = await child.received('granted')
    assert.equal(await locks.semaphore(name, { permits: 3 }).tryAcquire(), undefined)
    await child.kill()
    const wait = 2 * context.ttl + context.timeout
    const lease = await locks.semaphore(name, { permits: 3 }).acquire({ wait })
    assert.ok(lease.token > token)
    await lease.release()
  })
}
