// Long because it is a list of tests that share their helpers.
import assert from 'node:assert/strict'
import { LeaseLostError, type LossCause } from 'holdfast'
import type { Client } from './client.js'
import type { Fixture } from './fixture.js'
import type { It } from './suite.js'
import { block, pause, type TestContext } from './test-context.js'

export function loss(it: It, fixture: Fixture): void {
  it('is reported to a holder that is cut off before another client can have the lock', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    const states: string[] = []
    for (const event of ['doubtful', 'lost'] as const) a.locks.on(event, () => states.push(event))
    const ttl = context.lasting
    await context.connected(a, b)
    const lease = await a.locks.mutex(name).acquire({ ttl })
    const { signal } = lease
    let heldAtGrant: boolean | undefined
    const next = b.locks
      .mutex(name)
      .acquire()
      .then((granted) => {
        heldAtGrant = lease.isHeld
        return granted
      })
    await context.queued(b, name, 1)
    await context.cut(a)
    const second = await context.settlesInTime('the lock to be free again', next, 3 * ttl + context.timeout)
    assert.equal(heldAtGrant, false, 'two clients believed to hold it')
    assert.equal(lease.state, 'lost')
    assert.throws(() => lease.assertHeld(), LeaseLostError)
    await context.until('the signal', () => signal.aborted)
    assert.ok(signal.reason instanceof LeaseLostError)
    const { why } = signal.reason
    // A slow reply before the cut causes a doubt of its own, which that reply ended.
    const last = why === 'expired' ? ['doubtful', 'lost'] : ['lost']
    assert.deepEqual(states.slice(-last.length), last)
    await second.release()
  })

  it('is not caused by a partition that heals in time', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    const ttl = Math.max(context.ttl * 4, 4_000)
    const lease = await a.locks.mutex(name).acquire({ ttl })
    await context.cut(a)
    // Long enough for a renewal to fail, short enough for a slow machine. A session may end before the ttl does.
    await pause(lease.remaining() * 0.45)
    assert.equal(lease.isHeld, true)
    await context.heal()
    const left = lease.remaining()
    // A driver may prove the lease before the core has asked: the state stays doubtful until then.
    await context.until('a renewal', () => lease.remaining() > left && lease.state === 'held')
    await context.assertHeld(b, name)
    await lease.release()
  })

  it('is known to a synchronous check at once when the event loop was blocked too long', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    const lease = await a.locks.mutex(name).acquire({ ttl: context.ttl })
    const { signal } = lease
    block(context.ttl + 20)
    assert.equal(signal.aborted, false, 'nothing could have told the signal yet')
    assert.throws(() => lease.assertHeld(), { code: 'LEASE_LOST', why: 'expired' })
    assert.equal(lease.isHeld, false)
    assert.equal(lease.remaining(), 0)
    await context.until('the signal', () => signal.aborted)
    await context.settlesInTime('the lock to be free', context.assertFree(b, name))
    assert.equal(await lease.release(), 'lost')
  })

  it('is for good: neither healing nor extending revives a lost lease', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    const lease = await loseByCut(context, a, name)
    await context.heal()
    await assert.rejects(lease.extend(), LeaseLostError)
    assert.equal(lease.state, 'lost')
    assert.equal(lease.isHeld, false)
    const second = await b.locks.mutex(name).acquire({ wait: context.ttl + context.timeout })
    assert.equal(await lease.release(), 'lost')
    assert.equal(await lease.release(), 'lost')
    await context.assertHeld(a, name)
    assert.equal(second.isHeld, true)
    await second.release()
  })

  it('throws from `run`, with the result of the function', async (context) => {
    const a = context.client()
    const name = context.name()
    await context.connected(a)
    const answer = a.locks.mutex(name).run(
      async (lease) => {
        await takeAway(context, a, name)
        await context.until(
          'the loss to be noticed',
          () => !lease.isHeld,
          context.momentary + context.timeout,
        )
        return 'receipt'
      },
      { ttl: context.momentary },
    )
    const error = await answer.catch((error: unknown) => error)
    assert.ok(error instanceof LeaseLostError, String(error))
    assert.equal(error.result, 'receipt')
    assert.equal(error.lock, name)
  })

  it('is noticed within a renewal when the store has taken the lock away', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    const lost: string[] = []
    a.locks.on('lost', ({ why }) => lost.push(why))
    await context.connected(a, b)
    const lease = await a.locks.mutex(name).acquire({ ttl: context.momentary })
    await takeAway(context, b, name)
    await context.until('the loss', () => lease.state === 'lost', context.momentary + context.timeout)
    await context.until('the event', () => lost.length > 0)
    assert.equal(lost.length, 1)
    assert.notEqual(lost[0], 'max-hold')
    assert.equal(await lease.release(), 'lost')
    await context.assertFree(b, name)
  })

  it('by a forced release is reported by `signal` and event, with one cause, even if the lease is not read', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    if (a.driver.forceRelease === undefined) return
    const reportsLoss = fixture.reportsLoss === true
    const ttl = reportsLoss ? 60_000 : Math.max(context.ttl, 3_000)
    const waited = async () => {
      const first = await b.locks.mutex(name).acquire()
      const next = a.locks.mutex(name).acquire({ ttl })
      await context.queued(b, name, 1)
      await first.release()
      return next
    }
    // By the second time, it is certainly subscribed.
    await (await waited()).release()
    const lease = await waited()
    const lost: LossCause[] = []
    a.locks.on('lost', ({ why }) => lost.push(why))
    const { signal } = lease
    const aborted = new Promise<void>((resolve) => {
      signal.addEventListener('abort', () => resolve(), { once: true })
    })
    assert.equal(await b.locks.forceRelease(name), 1)
    await context.settlesInTime(
      'the signal',
      aborted,
      reportsLoss ? context.timeout / 2 : ttl + context.timeout,
    )
    assert.ok(signal.reason instanceof LeaseLostError)
    const { why } = signal.reason
    assert.match(why, reportsLoss ? /^revoked$/ : /^(revoked|taken)$/)
    assert.deepEqual(lost, [why])
    assert.equal(lease.state, 'lost')
    assert.throws(
      () => lease.assertHeld(),
      (error) => error === signal.reason,
    )
    assert.equal(await lease.release(), 'lost')
  })

  it('is not caused by reading: listeners are notified in a separate tick', async (context) => {
    const a = context.client()
    const lease = await a.locks.mutex(context.name()).acquire({ ttl: context.ttl, autoRenew: false })
    let events = 0
    a.locks.on('lost', () => events++)
    const { signal } = lease
    block(context.ttl + 20)
    assert.equal(lease.state, 'lost')
    assert.equal(lease.isHeld, false)
    assert.equal(lease.remaining(), 0)
    assert.throws(() => lease.assertHeld(), { why: 'expired' })
    assert.equal(lease.signal.aborted, false)
    assert.equal(events, 0)
    await context.until('the event', () => events === 1 && signal.aborted)
    assert.equal(signal.reason.why, 'expired')
  })

  async function loseByCut(context: TestContext, client: Client, name: string) {
    const lease = await client.locks.mutex(name).acquire({ ttl: context.ttl })
    await context.cut(client)
    await context.until('the loss', () => !lease.isHeld, 2 * context.ttl + context.timeout)
    return lease
  }

  async function takeAway(context: TestContext, client: Client, name: string): Promise<void> {
    const { loseHold } = fixture.faults
    if (loseHold !== undefined) return loseHold(name)
    assert.ok(
      (await client.locks.forceRelease(name)) > 0,
      'the fixture needs loseHold: forceRelease ended nothing',
    )
    await context.until(
      'the hold to be gone',
      async () => (await client.locks.inspect(name)).holders.length === 0,
    )
  }
}
