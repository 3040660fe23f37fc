import assert from 'node:assert/strict'
import type { Fixture } from './fixture.js'
import { pause } from './stage.js'
import type { It } from './suite.js'

export function permits(it: It, { traits }: Fixture): void {
  if (!traits.modes.includes('permits')) {
    it('are refused when they are made', async (stage) => {
      const { locks } = stage.client()
      assert.throws(() => locks.semaphore(stage.name(), { permits: 2 }), { code: 'UNSUPPORTED' })
    })
    return
  }

  it('give as many permits as there are, over clients, and the next when one is given back', async (stage) => {
    const [a, b, c] = [stage.client(), stage.client(), stage.client()]
    const name = stage.name()
    const leases = []
    for (const client of [a, b, a]) leases.push(await client.locks.semaphore(name, { permits: 3 }).acquire())
    assert.equal(await c.locks.semaphore(name, { permits: 3 }).tryAcquire(), undefined)
    const next = c.locks.semaphore(name, { permits: 3 }).acquire()
    await stage.inLine(a, name, 1)
    await leases[1]?.release()
    const fourth = await stage.soon('a permit', next)
    assert.equal(await b.locks.semaphore(name, { permits: 3 }).tryAcquire(), undefined)
    for (const lease of [leases[0], leases[2], fourth]) await lease?.release()
  })

  it('count by weight', async (stage) => {
    const [a, b] = [stage.client(), stage.client()]
    const name = stage.name()
    const of = { permits: 5 }
    const three = await a.locks.semaphore(name, of).acquire({ permits: 3 })
    assert.equal(await b.locks.semaphore(name, of).tryAcquire({ permits: 3 }), undefined)
    const two = await b.locks.semaphore(name, of).tryAcquire({ permits: 2 })
    assert.ok(two !== undefined)
    assert.equal(await a.locks.semaphore(name, of).tryAcquire(), undefined)
    await three.release()
    await two.release()
    const five = await b.locks.semaphore(name, of).acquire({ permits: 5, wait: stage.patience })
    await five.release()
  })

  it('never exceed the limit under load', async (stage) => {
    const clients = [stage.client(), stage.client(), stage.client()]
    const name = stage.name()
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
          // The first one stays until it is not alone: it has one permit, beside which any other request fits.
          await stage.until('two to be in at once', () => together > 1, stage.patience * 2)
          await pause(2)
          inside--
          taken -= weight
        }
        return client.locks
          .semaphore(name, { permits: 4 })
          .run(section, { permits: weight, wait: stage.patience * 4 })
      }),
    )
    await Promise.all(work)
    assert.ok(most <= 4, `${most} permits of 4 were taken at once`)
  })

  it('do not starve a large request while small ones keep coming', async (stage) => {
    const clients = [stage.client(), stage.client()]
    const name = stage.name()
    const of = { permits: 3 }
    let go = true
    const small = async (client: (typeof clients)[number], offset: number) => {
      await pause(offset)
      while (go) await client.locks.semaphore(name, of).run(() => pause(12))
    }
    const work = clients.flatMap((client, i) => [small(client, i * 4), small(client, i * 4 + 6)])
    stage.cleanup(async () => {
      go = false
      await Promise.all(work)
    })
    await pause(30)
    const large = await stage.client().locks.semaphore(name, of).acquire({ permits: 3, wait: stage.patience })
    await large.release()
  })

  it('refuse two users with different limits', async (stage) => {
    const [a, b] = [stage.client(), stage.client()]
    const name = stage.name()
    const lease = await a.locks.semaphore(name, { permits: 3 }).acquire()
    const refused = b.locks.semaphore(name, { permits: 4 }).acquire({ wait: stage.patience })
    await assert.rejects(
      refused,
      (error: Error) => error instanceof RangeError && /3/.test(error.message) && /4/.test(error.message),
    )
    assert.equal(lease.isHeld, true)
    await lease.release()
  })

  it('refuse more permits than there are before anything is sent', async (stage) => {
    const client = stage.client()
    const lock = client.locks.semaphore(stage.name(), { permits: 3 })
    for (const permits of [4, 0, -1, 1.5, Number.NaN])
      await assert.rejects(lock.acquire({ permits }), RangeError)
    assert.equal(client.asked(), 0)
  })
}
