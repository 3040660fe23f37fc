import assert from 'node:assert/strict'
import { BackendError } from 'holdfast'
import type { Fixture } from './fixture.js'
import { outageOfHolders } from './outage-of-holders.js'
import type { It } from './suite.js'
import { pause } from './test-context.js'

export function outage(it: It, fixture: Fixture): void {
  const { faults, traits } = fixture
  outageOfHolders(it, fixture)

  it('of one client ends its wait with an error, in time, and leaves no queue entry', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    await a.locks.mutex(context.name()).run(() => undefined)
    const lease = await b.locks.mutex(name).acquire()
    await context.cut(a)
    const begin = performance.now()
    const error = await a.locks
      .mutex(name)
      .acquire({ wait: 200, ttl: context.ttl })
      .catch((error: unknown) => error)
    const took = performance.now() - begin
    assert.ok(took < 200 + context.timeout, `took ${took} ms`)
    assert.equal((error as { code?: unknown }).code, 'UNAVAILABLE', String(error))
    await context.heal()
    await lease.release()
    await (await a.locks.mutex(name).acquire({ wait: 2 * context.ttl + context.timeout })).release()
  })

  it('of one client makes a try an error, not "not free"', async (context) => {
    const a = context.client()
    await a.locks.mutex(context.name()).run(() => undefined)
    await context.cut(a)
    const tried = a.locks.mutex(context.name()).tryAcquire({ ttl: context.ttl })
    await assert.rejects(
      context.settlesInTime('the try to end', tried, context.ttl + context.timeout + 10_000),
      {
        code: 'UNAVAILABLE',
      },
    )
  })

  it('of one client makes a release answer `unknown`, and the lock is free after its ttl', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    const lease = await a.locks.mutex(name).acquire({ ttl: context.ttl })
    await context.cut(a)
    const outcome = await context.settlesInTime(
      'the release to answer',
      lease.release(),
      context.ttl + context.timeout,
    )
    assert.match(outcome, /^(unknown|lost)$/)
    assert.equal(lease.isHeld, false)
    await (await b.locks.mutex(name).acquire({ wait: 3 * context.ttl + context.timeout })).release()
  })

  if (faults.stop === undefined) return

  it('of all loses leases by their deadline, and ends waits in time', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    const lease = await a.locks.mutex(name).acquire({ ttl: context.ttl })
    await b.locks.mutex(context.name()).run(() => undefined)
    await context.stop()
    const refused = b.locks.mutex(name).acquire({ wait: context.ttl })
    const error = await context
      .settlesInTime('the wait to end', refused, context.ttl + context.timeout)
      .catch((error: unknown) => error)
    assert.equal((error as { code?: unknown }).code, 'UNAVAILABLE', String(error))
    await context.until('the loss', () => !lease.isHeld, 2 * context.ttl)
  })

  it('of all that begins during a wait is reported as an outage at its end, not as a held lock', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    const why: string[] = []
    b.locks.on('denied', (denied) => why.push(denied.why))
    await a.locks.mutex(name).acquire({ ttl: context.ttl })
    const waits = [1, 2].map(() =>
      b.locks.mutex(name).acquire({ wait: context.ttl + 1_000, ttl: context.ttl }),
    )
    const ended = Promise.all(waits.map((wait) => wait.catch((error: unknown) => error)))
    await context.queued(a, name, 1)
    await context.stop()
    const errors = await context.settlesInTime(
      'the waits to end',
      ended,
      context.ttl + 1_000 + context.timeout,
    )
    for (const error of errors) {
      assert.ok(error instanceof BackendError, String(error))
      assert.equal(error.code, 'UNAVAILABLE', String(error))
    }
    assert.deepEqual(why, ['failed', 'failed'])
  })

  it('of all is reported as such by every method, never as a held lock', async (context) => {
    const { locks } = context.client()
    const known = context.name()
    await locks.mutex(known).run(() => undefined)
    await context.stop()
    const options = { wait: 300, ttl: context.ttl }
    // One name each: a try next to waiters of its own process is refused without asking the store.
    const name = () => context.name()
    const verbs: Record<string, () => Promise<unknown>> = {
      acquire: () => locks.mutex(known).acquire(options),
      'acquire that does not wait': () => locks.mutex(name()).acquire({ ...options, wait: 0 }),
      tryAcquire: () => locks.mutex(name()).tryAcquire({ ttl: context.ttl }),
      run: () => locks.mutex(name()).run(() => undefined, options),
      job: () => locks.job(name(), { ttl: context.ttl }).run(() => undefined),
      ...(traits.cells === true && {
        once: () => locks.once(name(), () => undefined, options),
        campaign: () => locks.election(name()).campaign('x', options),
        'latch.wait': () => locks.latch(name()).wait({ wait: 300 }),
        'latch.wait that looks once': () => locks.latch(name()).wait({ wait: 0 }),
        'latch.count': () => locks.latch(name()).count(),
      }),
      ...(traits.cells === true &&
        traits.modes.includes('shared') && {
          'pool.acquire': () => locks.pool(name(), { permits: 1 }).acquire(options),
          'pool.tryAcquire': () => locks.pool(name(), { permits: 1 }).tryAcquire({ ttl: context.ttl }),
          'barrier.enter': () => locks.barrier(name(), 2).enter(options),
        }),
    }
    const refused = Object.entries(verbs).map(async ([verb, ask]) => {
      const error = await ask().catch((error: unknown) => error)
      assert.ok(error instanceof BackendError, `${verb}: ${error}`)
      assert.equal(error.code, 'UNAVAILABLE', `${verb}: ${error}`)
      assert.ok((error.tried ?? -1) >= 0)
      // One attempt alone, with no time limit of its own, may take ten seconds.
      if (verb === 'acquire' || verb === 'once')
        assert.ok(Number(error.tried) < 5_000, `${verb}: ${error.tried} ms`)
    })
    await context.settlesInTime('every verb to end', Promise.all(refused), 30_000 + context.timeout)
    await context.heal()
  })

  it('of all is over once the store is back: locks are granted again, with greater tokens', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    let before = 0
    await a.locks.mutex(name).run((lease) => {
      before = lease.token
    })
    await context.stop()
    await pause(context.ttl / 2)
    await context.heal()
    for (const client of [a, b]) {
      let lease: import('holdfast').Lease | undefined
      await context.until('a grant after the outage', async () => {
        lease = await client.locks
          .mutex(name)
          .acquire({ wait: context.timeout })
          .catch(() => undefined)
        return lease !== undefined
      })
      assert.ok(lease !== undefined && lease.token > before, `token ${lease?.token} came after ${before}`)
      before = lease.token
      await lease.release()
    }
  })
}
