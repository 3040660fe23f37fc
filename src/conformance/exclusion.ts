import assert from 'node:assert/strict'
import type { Lock, Locks } from 'holdfast'
import { check, memoryRecorder, printViolation, recordLocks } from 'holdfast/verify'
import type { Fixture } from './fixture.js'
import type { It } from './suite.js'
import { expiredWait } from './test-context.js'

export function exclusion(it: It, { traits }: Fixture): void {
  it('gives a lock to one client only, until it is released', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    const lease = await a.locks.mutex(name).acquire()
    assert.equal(lease.isHeld, true)
    assert.equal(lease.state, 'held')
    await context.assertHeld(b, name)
    assert.equal(await lease.release(), 'released')
    assert.equal(lease.state, 'released')
    await context.assertFree(b, name)
  })

  it('lets different names be held at once', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const first = await a.locks.mutex(context.name()).acquire()
    const second = await b.locks.mutex(context.name()).acquire({ wait: context.timeout })
    assert.equal(first.isHeld && second.isHeld, true)
    await Promise.all([first.release(), second.release()])
  })

  it('never has two holders while clients come, wait, try, give up and go', async (context) => {
    const name = context.name()
    const recorder = memoryRecorder()
    let counter = 0
    let served = 0
    const section = async () => {
      const seen = counter
      await new Promise(setImmediate)
      counter = seen + 1
      served++
    }
    const turn = async (lock: Lock, i: number) => {
      if (i % 4 === 3) return await (await lock.tryAcquire())?.release()
      if (i % 6 === 5) return await lock.run(section, { wait: 20 }).catch(timedOut)
      // A fair request goes to the store, even if its own process could hand over the lock.
      return await lock.run(section, { wait: context.timeout * 4, fair: traits.fair && i % 2 === 0 })
    }
    const clients = Array.from({ length: 4 }, () => recordLocks(context.client().locks, recorder).mutex(name))
    const work = clients.flatMap((lock) =>
      Array.from({ length: 3 }, async () => {
        for (let i = 0; i < 8; i++) await turn(lock, i)
      }),
    )
    await Promise.all(work)
    const violations = check(recorder.history(), {
      falseBusy: false,
      liveness: { within: context.timeout * 4 },
    })
    assert.equal(violations.slice(0, 3).map(printViolation).join('\n\n'), '')
    assert.equal(counter, served, 'increments were lost')
    assert.ok(served >= 12 * 5)
  })

  if (traits.modes.includes('shared')) {
    it('puts readers, writers and mutexes of one name into the same queue', async (context) => {
      const [a, b] = [context.client(), context.client()]
      const name = context.name()
      const lease = await a.locks.mutex(name).acquire()
      assert.equal(await b.locks.readWrite(name).read.tryAcquire(), undefined)
      assert.equal(await b.locks.readWrite(name).write.tryAcquire(), undefined)
      await lease.release()
      const reader = await a.locks.readWrite(name).read.acquire()
      await context.assertHeld(b, name)
      await reader.release()
    })
  } else refuses(it, 'read/write lock', 'shared', (locks, name) => locks.readWrite(name))

  if (traits.modes.includes('permits')) {
    it('has permits and mutexes of one name exclude each other', async (context) => {
      const [a, b] = [context.client(), context.client()]
      const name = context.name()
      const permit = await a.locks.semaphore(name, { permits: 3 }).acquire()
      await context.assertHeld(b, name)
      await permit.release()
      const lease = await a.locks.mutex(name).acquire()
      assert.equal(await b.locks.semaphore(name, { permits: 3 }).tryAcquire(), undefined)
      await lease.release()
    })
  } else refuses(it, 'semaphore', 'permits', (locks, name) => locks.semaphore(name, { permits: 2 }))
}

function refuses(it: It, what: string, mode: string, make: (locks: Locks, name: string) => unknown): void {
  it(`refuses a ${what} when it is made, because the store has no ${mode} mode`, async (context) => {
    const { locks } = context.client()
    assert.throws(() => make(locks, context.name()), { code: 'UNSUPPORTED' })
  })
}

function timedOut(error: { code?: unknown }): void {
  if (!expiredWait.code.test(String(error.code))) throw error
}
