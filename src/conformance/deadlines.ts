import assert from 'node:assert/strict'
import type { Fixture } from './fixture.js'
import { block, pause } from './stage.js'
import type { It } from './suite.js'

export function deadlines(it: It, { traits }: Fixture): void {
  it('count from when a lease was asked for, not from when the answer was read', async (stage) => {
    const [a, b] = [stage.client(), stage.client()]
    const name = stage.name()
    await Promise.all([a, b].map((client) => client.locks.mutex(stage.name()).run(() => undefined)))
    const asked = a.locks.mutex(name).acquire({ ttl: stage.ttl, autoRenew: false })
    block(stage.ttl * 0.6)
    const lease = await asked
    const second = await b.locks.mutex(name).acquire({ wait: 3 * stage.ttl + stage.patience })
    assert.equal(lease.isHeld, false, 'two clients believed to hold it')
    await second.release()
  })

  it('count from when a renewal was asked for, not from when the answer was read', async (stage) => {
    const [a, b] = [stage.client(), stage.client()]
    const name = stage.name()
    const ttl = Math.max(stage.ttl, 1_000)
    await stage.connected(a, b)
    const lease = await a.locks.mutex(name).acquire({ ttl, autoRenew: false })
    let heldAtGrant: boolean | undefined
    const next = b.locks
      .mutex(name)
      .acquire()
      .then((granted) => {
        heldAtGrant = lease.isHeld
        return granted
      })
    // Should the lease be over before the other one stands in line, it has the lock at once.
    await Promise.race([next, stage.inLine(b, name, 1)])
    const extended = lease.extend().catch(() => undefined)
    block(ttl * 0.6)
    await extended
    const second = await stage.soon('the lock to be free again', next, 3 * ttl + stage.patience)
    assert.equal(heldAtGrant, false, 'two clients believed to hold it')
    await second.release()
  })

  it('end a lease after one ttl without renewal, and not before', async (stage) => {
    const [a, b] = [stage.client(), stage.client()]
    const name = stage.name()
    const begin = performance.now()
    const lease = await a.locks.mutex(name).acquire({ ttl: stage.ttl, autoRenew: false })
    assert.ok(lease.remaining() > 0 && lease.remaining() <= stage.ttl)
    const second = await b.locks.mutex(name).acquire({ wait: 3 * stage.ttl + stage.patience })
    const took = performance.now() - begin
    assert.equal(lease.isHeld, false)
    assert.ok(took >= stage.ttl * 0.95, `another client had it after ${took} ms of a ttl of ${stage.ttl} ms`)
    await second.release()
  })

  it('are put off by `extend`', async (stage) => {
    const [a, b] = [stage.client(), stage.client()]
    const name = stage.name()
    const ttl = Math.max(stage.ttl, 1_500)
    await stage.connected(a, b)
    const lease = await a.locks.mutex(name).acquire({ ttl, autoRenew: false })
    const left = await lease.extend(ttl * 20)
    // A session that lasts less than that is kept alive meanwhile.
    assert.ok(left > ttl, `${left} ms are left`)
    await pause(ttl * 1.3)
    assert.equal(lease.isHeld, true)
    await stage.assertTaken(b, name)
    await lease.release()
  })

  it('do not end a lease while renewals are answered', async (stage) => {
    const [a, b] = [stage.client(), stage.client()]
    const name = stage.name()
    const ttl = Math.max(stage.ttl, 3_000)
    await stage.connected(a, b)
    const lease = await a.locks.mutex(name).acquire({ ttl })
    await pause(ttl * 1.2)
    assert.equal(lease.isHeld, true)
    await stage.assertTaken(b, name)
    // A store that stands still for a moment has not answered within a sixth of the ttl, and has lost nothing.
    assert.match(await lease.release(), /^(released|unknown)$/)
  })

  const { maxLockDelay = 0 } = traits
  if (maxLockDelay > 0) {
    it('keep a lock from others for its `lockDelay` more when nobody gave it back', async (stage) => {
      const [a, b] = [stage.client(), stage.client()]
      const name = stage.name()
      const lockDelay = Math.min(stage.ttl / 2, maxLockDelay)
      const begin = performance.now()
      const lease = await a.locks.mutex(name).acquire({ ttl: stage.ttl, lockDelay, autoRenew: false })
      assert.ok(lease.remaining() <= stage.ttl)
      const second = await b.locks.mutex(name).acquire({ wait: 3 * stage.ttl + stage.patience })
      // Counted from before it was asked for: how long it still had when that is looked at hangs on how busy the machine is.
      const took = performance.now() - begin
      const least = stage.ttl * 0.95 + lockDelay
      assert.ok(took >= least, `another client had it after ${took} ms, at least ${least} ms it is kept`)
      await second.release()
    })

    it('are no reason to wait for the `lockDelay` of a lock that was given back, even when it was lost', async (stage) => {
      const [a, b] = [stage.client(), stage.client()]
      const name = stage.name()
      const lockDelay = Math.min(600_000, maxLockDelay)
      const options = { ttl: stage.ttl, lockDelay, autoRenew: false }
      await (await a.locks.mutex(name).acquire(options)).release()
      await stage.assertFree(b, name)
      const lease = await a.locks.mutex(name).acquire(options)
      const next = b.locks.mutex(name).acquire({ wait: 2 * stage.ttl + stage.patience })
      await stage.until('the loss', () => !lease.isHeld, stage.ttl + stage.patience)
      assert.equal(await lease.release(), 'lost')
      await (await next).release()
    })
  } else {
    it('have no `lockDelay`, and it is refused', async (stage) => {
      const { locks } = stage.client()
      await assert.rejects(locks.mutex(stage.name()).acquire({ lockDelay: 100 }), { code: 'UNSUPPORTED' })
    })
  }

  it('end a lease that has lasted for `maxHold`, and the lock is free for others', async (stage) => {
    const [a, b] = [stage.client(), stage.client()]
    const name = stage.name()
    // Not the end of its ttl, on a busy machine either.
    const ttl = Math.max(stage.ttl, 2_000)
    await stage.connected(a, b)
    const lease = await a.locks.mutex(name).acquire({ ttl, maxHold: 100 })
    await stage.until('the loss', () => !lease.isHeld, ttl + stage.patience)
    assert.throws(() => lease.assertHeld(), { why: 'max-hold' })
    const second = await b.locks.mutex(name).acquire({ wait: 2 * ttl + stage.patience })
    await second.release()
  })
}
