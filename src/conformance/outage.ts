import assert from 'node:assert/strict'
import type { Fixture } from './fixture.js'
import { pause } from './stage.js'
import type { It } from './suite.js'

export function outage(it: It, { breakage }: Fixture): void {
  it('of one client ends its wait with an error, in time, and leaves no place in line', async (stage) => {
    const [a, b] = [stage.client(), stage.client()]
    const name = stage.name()
    await a.locks.mutex(stage.name()).run(() => undefined)
    const lease = await b.locks.mutex(name).acquire()
    await stage.cut(a)
    const begin = performance.now()
    const error = await a.locks
      .mutex(name)
      .acquire({ wait: 200, ttl: stage.ttl })
      .catch((error: unknown) => error)
    const took = performance.now() - begin
    assert.ok(took < 200 + stage.patience, `took ${took} ms`)
    assert.match(String((error as { code?: unknown }).code), /^(ACQUIRE_TIMEOUT|BACKEND)$/)
    await stage.heal()
    await lease.release()
    await (await a.locks.mutex(name).acquire({ wait: 2 * stage.ttl + stage.patience })).release()
  })

  it('of one client makes a try an error, not "not free"', async (stage) => {
    const a = stage.client()
    await a.locks.mutex(stage.name()).run(() => undefined)
    await stage.cut(a)
    const tried = a.locks.mutex(stage.name()).tryAcquire({ ttl: stage.ttl })
    await assert.rejects(stage.soon('the try to end', tried, stage.ttl + stage.patience + 10_000), {
      code: 'BACKEND',
    })
  })

  it('of one client makes a release answer `unknown`, and the lock is free after its ttl', async (stage) => {
    const [a, b] = [stage.client(), stage.client()]
    const name = stage.name()
    const lease = await a.locks.mutex(name).acquire({ ttl: stage.ttl })
    await stage.cut(a)
    const outcome = await stage.soon('the release to answer', lease.release(), stage.ttl + stage.patience)
    assert.match(outcome, /^(unknown|lost)$/)
    assert.equal(lease.isHeld, false)
    await (await b.locks.mutex(name).acquire({ wait: 3 * stage.ttl + stage.patience })).release()
  })

  const { stop } = breakage
  if (stop === undefined) return

  it('of all loses leases by their deadline, and ends waits in time', async (stage) => {
    const [a, b] = [stage.client(), stage.client()]
    const name = stage.name()
    const lease = await a.locks.mutex(name).acquire({ ttl: stage.ttl })
    await b.locks.mutex(stage.name()).run(() => undefined)
    await stop()
    const refused = b.locks.mutex(name).acquire({ wait: stage.ttl })
    const error = await stage
      .soon('the wait to end', refused, stage.ttl + stage.patience)
      .catch((error: unknown) => error)
    assert.match(String((error as { code?: unknown }).code), /^(ACQUIRE_TIMEOUT|BACKEND)$/)
    await stage.until('the loss', () => !lease.isHeld, 2 * stage.ttl)
  })

  it('of all is over once the store is back: locks can be had again, with greater tokens', async (stage) => {
    const [a, b] = [stage.client(), stage.client()]
    const name = stage.name()
    let before = 0
    await a.locks.mutex(name).run((lease) => {
      before = lease.token
    })
    await stop()
    await pause(stage.ttl / 2)
    await stage.heal()
    for (const client of [a, b]) {
      let lease: import('holdfast').Lease | undefined
      await stage.until('a grant after the outage', async () => {
        lease = await client.locks
          .mutex(name)
          .acquire({ wait: stage.patience })
          .catch(() => undefined)
        return lease !== undefined
      })
      assert.ok(lease !== undefined && lease.token > before, `token ${lease?.token} came after ${before}`)
      before = lease.token
      await lease.release()
    }
  })
}
