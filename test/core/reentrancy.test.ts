import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { memory } from '../../src/drivers/memory/index.js'
import { createLocks, type Lease, type Locks } from '../../src/index.js'
import { settle } from '../support/fake-clock.js'
import { leakCheck } from '../support/leaks.js'
import { type Script, type ScriptedGrant, script } from '../support/scripted-driver.js'

after(leakCheck)

/** Runs `fn` inside a hold of `lock`, granted by the script. */
async function within<R>(
  s: Script,
  lock: ReturnType<Locks['mutex']>,
  fn: (lease: Lease, grant: ScriptedGrant) => Promise<R>,
): Promise<R> {
  let grant: ScriptedGrant | undefined
  const running = lock.run((lease) => fn(lease, grant!))
  await settle()
  grant = s.asked.at(-1)!.grant()
  return running
}

test('the same mutex again in the same context throws instead of waiting for itself', async () => {
  const s = script()
  await within(s, s.locks.mutex('m'), async () => {
    await assert.rejects(s.locks.mutex('m').acquire(), { name: 'DeadlockError', code: 'DEADLOCK' })
    assert.equal(
      await s.locks.mutex('m').tryAcquire(),
      undefined,
      'a try does not wait, so it does not throw',
    )
  })
  assert.equal(s.asked.length, 1)
})

test('with reentrant: true it is reentered: same token, no request, released when all have left', async () => {
  const s = script()
  await within(s, s.locks.mutex('m'), async (outer, grant) => {
    const inner = await s.locks.mutex('m').acquire({ reentrant: true })
    assert.equal(inner.token, outer.token)
    assert.equal(outer.holdCount, 2)
    assert.equal(await inner.release(), 'released')
    assert.equal(await inner.release(), 'already-released')
    assert.equal(inner.state, 'released')
    assert.throws(
      () => inner.assertHeld(),
      /^LeaseLostError: lease of "m" \(token \d+\) was released by its holder;/,
    )
    assert.equal(outer.state, 'held', 'releasing an inner entry twice does not let go of the outer one')
    assert.equal(outer.holdCount, 1)
    assert.equal(grant.releases, 0)
  })
  assert.equal(s.asked.length, 1)
})

test('an outer entry that leaves first keeps the lock for the inner one', async () => {
  const s = script()
  await within(s, s.locks.mutex('m'), async (outer, grant) => {
    const inner = await s.locks.mutex('m').acquire({ reentrant: true })
    await outer.release()
    assert.equal(outer.state, 'released')
    assert.equal(inner.isHeld, true)
    assert.equal(grant.releases, 0)
    await inner.release()
    assert.equal(grant.releases, 1)
  })
})

test('a lease given explicitly is entered without any async context', async () => {
  const s = script()
  const acquiring = s.locks.mutex('m').acquire()
  await settle()
  s.asked[0]!.grant()
  const lease = await acquiring
  const inner = await s.locks.mutex('m').acquire({ reentrant: lease })
  assert.equal(inner.token, lease.token)
  await assert.rejects(s.locks.mutex('other').acquire({ reentrant: lease }), /was given a lease of "m"/)
  await inner.release()
  await lease.release()
  await assert.rejects(s.locks.mutex('m').acquire({ reentrant: lease }), { name: 'LeaseLostError' })
})

test('work that outlives its run no longer counts as inside', async () => {
  const s = script()
  let later: Promise<Lease> | undefined
  let go = () => {}
  const gate = new Promise<void>((resolve) => {
    go = resolve
  })
  await within(s, s.locks.mutex('m'), async () => {
    later = gate.then(() => s.locks.mutex('m').acquire())
  })
  go()
  await settle()
  assert.equal(s.asked.length, 2)
  s.asked[1]!.grant()
  await (await later!).release()
})

test('a reader inside its own writer enters at once, and stays as a reader when the writer leaves', async () => {
  const s = script()
  const { read, write } = s.locks.readWrite('doc')
  let downgrades = 0
  const running = write.run(async (writer) => {
    const reader = await read.acquire()
    assert.equal(reader.token, writer.token)
    await writer.release()
    assert.equal(downgrades, 1)
    assert.equal(reader.isHeld, true)
    return reader
  })
  await settle()
  const grant = s.asked[0]!.grant({ downgrade: async () => void downgrades++ })
  const reader = await running
  assert.equal(grant.releases, 0)
  await reader.release()
  assert.equal(grant.releases, 1)
})

test('while the store is asked to turn a writer into a reader, nobody enters or inherits the hold as a writer', async () => {
  const s = script()
  const { read, write } = s.locks.readWrite('doc')
  const writing = write.acquire()
  await settle()
  const grant = s.asked[0]!.grant({
    nextReservedToken: () => 101,
    downgrade: () => new Promise(() => undefined),
  })
  const writer = await writing
  const reader = await read.acquire({ reentrant: writer })
  const next = write.acquire()
  void writer.release()
  await assert.rejects(write.acquire({ reentrant: reader }), { name: 'DeadlockError' })
  void reader.release()
  await settle()
  assert.equal(grant.releases, 1, 'it goes back to the store, which may have let readers in')
  s.asked.at(-1)!.grant()
  await (await next).release()
})

test('a writer inside its own reader would wait for itself', async () => {
  const s = script()
  const { read, write } = s.locks.readWrite('doc')
  await within(s, read, async () => {
    await assert.rejects(write.acquire(), /a reader cannot become a writer/)
    await assert.rejects(read.acquire(), { name: 'DeadlockError' })
  })
})

test('permits may be added as long as the limit could be met, never beyond', async () => {
  const s = script()
  const semaphore = s.locks.semaphore('pool', { permits: 3 })
  const running = semaphore.run(
    async () => {
      const more = semaphore.acquire()
      await settle()
      s.asked[1]!.grant()
      await (await more).release()
      await assert.rejects(
        semaphore.acquire({ permits: 2 }),
        /holds 2 of 3 permits already and asks for 2 more/,
      )
    },
    { permits: 2 },
  )
  await settle()
  s.asked[0]!.grant()
  await running
})

test('run returns the result of a lease lost before the end only inside the error', async () => {
  const s = script()
  const running = s.locks.mutex('m').run(async () => {
    s.clock.stall(60_000)
    return 'written'
  })
  await settle()
  s.asked[0]!.grant()
  await assert.rejects(running, { name: 'LeaseLostError', result: 'written', why: 'expired' })
})

test('run that fails releases and rethrows what the function threw', async () => {
  const s = script()
  const running = s.locks.mutex('m').run(() => {
    throw new RangeError('mine')
  })
  await settle()
  const grant = s.asked[0]!.grant()
  await assert.rejects(running, { name: 'RangeError', message: 'mine' })
  assert.equal(grant.releases, 1)
})

test('leases that a wait names in its options count as if it stood inside their run', async () => {
  const s = script()
  const acquiring = s.locks.mutex('m').acquire()
  await settle()
  s.asked[0]!.grant()
  const holding = await acquiring
  const told: unknown[] = []
  s.locks.on('order', ({ orders }) => told.push(orders))
  await assert.rejects(s.locks.mutex('m').acquire({ holding }), { code: 'DEADLOCK' })
  await within(s, s.locks.mutex('n'), async () => {
    await assert.rejects(s.locks.mutex('m').acquire({ wait: 0 }), { code: 'ACQUIRE_TIMEOUT' })
    await assert.rejects(
      s.locks.mutex('m').acquire({ wait: 1, signal: AbortSignal.abort(new Error('no')) }),
      /no/,
    )
  })
  assert.deepEqual(told, [])
  const inner = s.locks.mutex('o').acquire({ holding: [holding] })
  await settle()
  s.asked.at(-1)!.grant()
  const o = await inner
  await holding.release()
  const outer = s.locks.mutex('m').acquire({ holding: o })
  await settle()
  s.asked.at(-1)!.grant()
  await outer
  assert.deepEqual(told, [
    [
      ['o', 'm'],
      ['m', 'o'],
    ],
  ])
  await assert.rejects(
    s.locks.mutex('p').acquire({ holding: 'm' as never }),
    /holding must be leases of this library, got "m"/,
  )
  const other = script()
  const free = other.locks.mutex('m').acquire({ holding: o })
  await settle()
  other.asked[0]!.grant()
  assert.equal((await free).isHeld, true, 'a lease of other locks is none of its business')
})

test('a read lock is free for a reader: only a writer is waited for', async () => {
  await using locks = createLocks(memory())
  const { read, write } = locks.readWrite('m')
  await read.run(async (lease) => {
    for (const wait of [0, 1_000]) await read.waitUntilFree({ wait })
    assert.deepEqual([lease.isHeld, lease.holdCount], [true, 1])
    await assert.rejects(write.waitUntilFree(), { code: 'DEADLOCK' })
  })
  const advice = {
    code: 'DEADLOCK',
    message: /holds it itself; call waitUntilFree\(\) after it was released/,
  }
  await write.run(() => assert.rejects(write.waitUntilFree(), advice))
  const mutex = locks.mutex('m')
  await mutex.run(async () => {
    await assert.rejects(mutex.waitUntilFree(), advice)
    await assert.rejects(mutex.waitUntilFree({ wait: 0 }), { code: 'ACQUIRE_TIMEOUT' })
  })
})
