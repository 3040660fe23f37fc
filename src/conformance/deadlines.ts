/**
 * Tests of lease deadlines.
 * Long because the ways in which a deadline is set and ends belong side by side.
 */
import assert from 'node:assert/strict'
import type { Lease } from 'holdfast'
import type { Fixture } from './fixture.js'
import type { It } from './suite.js'
import { block, pause } from './test-context.js'

export function deadlines(it: It, { traits }: Fixture): void {
  it('count from when a lease was asked for, not from when the answer was read', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    await Promise.all([a, b].map((client) => client.locks.mutex(context.name()).run(() => undefined)))
    const asked = a.locks.mutex(name).acquire({ ttl: context.ttl, autoRenew: false })
    block(context.ttl * 0.6)
    const lease = await asked
    const second = await b.locks.mutex(name).acquire({ wait: 3 * context.ttl + context.timeout })
    assert.equal(lease.isHeld, false, 'two clients believed to hold it')
    await second.release()
  })

  it('count from when a renewal was asked for, not from when the answer was read', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    const ttl = Math.max(context.ttl, 1_000)
    await context.connected(a, b)
    const lease = await a.locks.mutex(name).acquire({ ttl, autoRenew: false })
    let heldAtGrant: boolean | undefined
    const next = b.locks
      .mutex(name)
      .acquire()
      .then((granted) => {
        heldAtGrant = lease.isHeld
        return granted
      })
    // If the lease ends before the other client is queued, that client gets the lock at once.
    await Promise.race([next, context.queued(b, name, 1)])
    const extended = lease.extend().catch(() => undefined)
    block(ttl * 0.6)
    await extended
    const second = await context.settlesInTime('the lock to be free again', next, 3 * ttl + context.timeout)
    assert.equal(heldAtGrant, false, 'two clients believed to hold it')
    await second.release()
  })

  it('leave a new holder nine tenths of the ttl, also beside older leases of its process', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const ttl = Math.max(context.ttl, 8_000)
    // Adds back the time spent by machine and store.
    const share = (lease: Lease, asked: number) => (lease.remaining() + performance.now() - asked) / lease.ttl
    const name = context.name()
    await context.connected(a, b)
    const older = await a.locks.mutex(context.name()).acquire({ ttl })
    const held = await b.locks.mutex(name).acquire({ ttl })
    const asked = a.locks.mutex(name).acquire({ ttl })
    let released = Number.POSITIVE_INFINITY
    const waited = asked.then((lease) => share(lease, Math.min(released, performance.now())))
    await context.queued(b, name, 1)
    await pause(older.ttl / 4)
    const began = performance.now()
    const free = share(await a.locks.mutex(context.name()).acquire({ ttl }), began)
    assert.ok(free >= 0.9, `${free} of its ttl was left when a free lock was granted`)
    released = performance.now()
    await held.release()
    const left = await context.settlesInTime('the lock to be granted', waited)
    assert.ok(left >= 0.9, `${left} of its ttl was left when it had waited`)
    await (await asked).release()
  })

  it('leave the next holder six tenths of the ttl, also inside a process that stood still', async (context) => {
    const a = context.client()
    const name = context.name()
    const ttl = Math.max(context.ttl, 2_000)
    const lock = a.locks.mutex(name)
    await context.connected(a)
    const lease = await lock.acquire({ ttl })
    const next = lock.acquire({ ttl })
    block(lease.ttl / 2)
    const released = performance.now()
    // Adds back the time spent by machine and store.
    const left = next.then((granted) => (granted.remaining() + performance.now() - released) / granted.ttl)
    await lease.release()
    const share = await context.settlesInTime('the lock to be handed over', left, 3 * ttl + context.timeout)
    assert.ok(share >= 0.6, `${share} of its ttl was left when it was granted`)
    await (await next).release()
  })

  it('end a lease after one ttl without renewal, and not before', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    const begin = performance.now()
    const lease = await a.locks.mutex(name).acquire({ ttl: context.ttl, autoRenew: false })
    assert.ok(lease.remaining() > 0 && lease.remaining() <= context.ttl)
    const second = await b.locks.mutex(name).acquire({ wait: 3 * context.ttl + context.timeout })
    const took = performance.now() - begin
    assert.equal(lease.isHeld, false)
    assert.ok(
      took >= context.ttl * 0.95,
      `another client had it after ${took} ms of a ttl of ${context.ttl} ms`,
    )
    await second.release()
  })

  it('are moved back by `extend`', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    const ttl = Math.max(context.ttl, 1_500)
    await context.connected(a, b)
    const lease = await a.locks.mutex(name).acquire({ ttl, autoRenew: false })
    const left = await lease.extend(ttl * 20)
    // A session shorter than that is kept alive meanwhile.
    assert.ok(left > ttl, `${left} ms are left`)
    await pause(ttl * 1.3)
    assert.equal(lease.isHeld, true)
    await context.assertHeld(b, name)
    await lease.release()
  })

  for (const [how, extend] of Object.entries({
    'by one `extend`': (lease: Lease, ttl: number) => lease.extend(ttl),
    'by the last of several at once': async (lease: Lease, ttl: number) => {
      const [, , left] = await Promise.all([lease.extend(ttl), lease.extend(4 * ttl), lease.extend(ttl)])
      return left ?? 0
    },
  }))
    it(`are brought forward ${how} to a shorter ttl, for the holder as for the others`, async (context) => {
      const [a, b] = [context.client(), context.client()]
      const name = context.name()
      await context.connected(a, b)
      const long = 6 * context.momentary
      const lease = await a.locks.mutex(name).acquire({ ttl: long, autoRenew: false })
      const left = await extend(lease, context.momentary)
      assert.ok(left <= context.momentary, `${left} ms are left of ${context.momentary}`)
      assert.ok(lease.remaining() <= left)
      const began = performance.now()
      const second = await b.locks.mutex(name).acquire({ wait: long + context.timeout })
      assert.equal(lease.isHeld, false, 'two clients believed to hold it')
      const took = performance.now() - began
      assert.ok(took < context.momentary + context.timeout, `another client had it only after ${took} ms`)
      await second.release()
    })

  it('are put off for the holder and the others by a longer ttl after a shorter one', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    await context.connected(a, b)
    const ttl = context.momentary
    const lease = await a.locks.mutex(name).acquire({ ttl: 4 * ttl, autoRenew: false })
    await lease.extend(ttl)
    const left = await lease.extend(3 * ttl)
    assert.ok(left > ttl, `${left} ms are left`)
    await pause(ttl * 1.3)
    assert.equal(lease.isHeld, true)
    await context.assertHeld(b, name)
    const second = await b.locks.mutex(name).acquire({ wait: 4 * ttl + context.timeout })
    assert.equal(lease.isHeld, false, 'two clients believed to hold it')
    await second.release()
  })

  it('are brought forward for the holder by a shorter `extend` that is not answered: it may have been carried out', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    await context.connected(a, b)
    const ttl = context.momentary
    const lease = await a.locks.mutex(name).acquire({ ttl: 3 * ttl, autoRenew: false })
    const extending = lease.extend(ttl).then(
      () => 'answered',
      () => 'not answered',
    )
    await context.cut(a)
    await extending
    assert.ok(lease.remaining() <= ttl, `${lease.remaining()} ms are left of ${ttl}`)
    const second = await b.locks.mutex(name).acquire({ wait: 4 * ttl + context.timeout })
    assert.equal(lease.isHeld, false, 'two clients believed to hold it')
    await second.release()
  })

  it('do not end a lease while renewals are answered', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    const ttl = Math.max(context.ttl, 3_000)
    await context.connected(a, b)
    const lease = await a.locks.mutex(name).acquire({ ttl })
    await pause(ttl * 1.2)
    assert.equal(lease.isHeld, true)
    await context.assertHeld(b, name)
    // A store that stalls for a moment has not answered within a sixth of the ttl, and has lost nothing.
    assert.match(await lease.release(), /^(released|unknown)$/)
  })

  const { maxLockDelay = 0 } = traits
  if (maxLockDelay > 0) {
    it('keep a lock from others for its `lockDelay` more when it was not released', async (context) => {
      const [a, b] = [context.client(), context.client()]
      const name = context.name()
      const lockDelay = Math.min(context.ttl / 2, maxLockDelay)
      const begin = performance.now()
      const lease = await a.locks.mutex(name).acquire({ ttl: context.ttl, lockDelay, autoRenew: false })
      assert.ok(lease.remaining() <= context.ttl)
      const second = await b.locks.mutex(name).acquire({ wait: 3 * context.ttl + context.timeout })
      // Measured from before the request: the remaining time when it is checked depends on how busy the machine is.
      const took = performance.now() - begin
      const least = context.ttl * 0.95 + lockDelay
      assert.ok(took >= least, `another client had it after ${took} ms, at least ${least} ms it is kept`)
      await second.release()
    })

    it('cause no `lockDelay` for a lock that was released, even when it was lost', async (context) => {
      const [a, b] = [context.client(), context.client()]
      const name = context.name()
      const lockDelay = Math.min(600_000, maxLockDelay)
      const options = { ttl: context.ttl, lockDelay, autoRenew: false }
      await (await a.locks.mutex(name).acquire(options)).release()
      await context.assertFree(b, name)
      const lease = await a.locks.mutex(name).acquire(options)
      const next = b.locks.mutex(name).acquire({ wait: 2 * context.ttl + context.timeout })
      await context.until('the loss', () => !lease.isHeld, context.ttl + context.timeout)
      assert.equal(await lease.release(), 'lost')
      await (await next).release()
    })
  } else {
    it('have no `lockDelay`, and it is refused', async (context) => {
      const { locks } = context.client()
      await assert.rejects(locks.mutex(context.name()).acquire({ lockDelay: 100 }), { code: 'UNSUPPORTED' })
    })
  }

  it('end a lease that has lasted for `maxHold`, and the lock is free for others', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    // Longer than a busy machine takes, so that the ttl does not end here.
    const ttl = Math.max(context.ttl, 2_000)
    await context.connected(a, b)
    const lease = await a.locks.mutex(name).acquire({ ttl, maxHold: 100 })
    await context.until('the loss', () => !lease.isHeld, ttl + context.timeout)
    assert.throws(() => lease.assertHeld(), { why: 'max-hold' })
    const second = await b.locks.mutex(name).acquire({ wait: 2 * ttl + context.timeout })
    await second.release()
  })
}
