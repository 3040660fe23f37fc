import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { createLocks, type Locks } from 'holdfast'
import { memory } from 'holdfast/memory'
import { check, type MemoryRecorder, memoryRecorder, recordLocks } from 'holdfast/verify'
import { leakCheck } from '../support/leaks.js'
import { until } from '../support/until.js'

after(leakCheck)

async function recording(
  use: (locks: Locks, recorder: MemoryRecorder) => Promise<void>,
): Promise<MemoryRecorder> {
  const recorder = memoryRecorder()
  const locks = recordLocks(createLocks(memory()), recorder)
  try {
    await use(locks, recorder)
  } finally {
    await locks.close()
  }
  return recorder
}

const told = (recorder: MemoryRecorder) =>
  recorder
    .history()
    .events.map(({ op, phase, kind }) => `${op} ${phase}${kind === undefined ? '' : ` ${kind}`}`)

describe('recorded locks', () => {
  it('write down an acquisition from its call to the answer of its release', async () => {
    const recorder = await recording(async (locks) => {
      const lease = await locks.mutex('x').acquire({ ttl: 5_000, wait: 10_000 })
      assert.equal(await lease.release(), 'released')
      assert.equal(await lease.release(), 'already-released')
    })
    assert.deepEqual(told(recorder), [
      'acquire invoke',
      'acquire ok',
      'release invoke',
      'release ok released',
    ])
    const { events, acquisitions } = recorder.history()
    assert.equal(events[0]?.wait, 10_000)
    const [one] = acquisitions
    assert.ok(one !== undefined && Number.isSafeInteger(one.token))
    assert.equal(events[1]?.ttl, 5_000)
    const left = (one.until! - one.granted!) / 1e6
    assert.ok(left > 4_000 && left < 5_000, `${left} ms`)
  })

  it('write down `run`, with the release before the store can hear of it', async () => {
    const recorder = await recording(async (locks, recorder) => {
      const result = await locks.mutex('x').run((lease) => {
        lease.assertHeld()
        recorder.write({ op: 'write', phase: 'ok', name: 'x' })
        return 7
      })
      assert.equal(result, 7)
      await assert.rejects(
        locks.mutex('x').run(() => Promise.reject(new Error('mine'))),
        /mine/,
      )
    })
    const once = ['acquire invoke', 'acquire ok', 'release invoke', 'release ok released']
    assert.deepEqual(told(recorder), [...once.slice(0, 2), 'write ok', ...once.slice(2), ...once])
  })

  it('write down why an acquisition failed', async () => {
    const recorder = await recording(async (locks) => {
      const lease = await locks.mutex('x').acquire()
      assert.equal(await locks.mutex('x').tryAcquire(), undefined)
      await assert.rejects(locks.mutex('x').acquire({ wait: 5 }), { code: 'ACQUIRE_TIMEOUT' })
      const stop = new AbortController()
      const cancelled = assert.rejects(locks.mutex('x').acquire({ signal: stop.signal }), {
        name: 'AbortError',
      })
      stop.abort()
      await cancelled
      await lease.release()
    })
    const failures = recorder.history().events.filter((event) => event.phase === 'fail')
    assert.deepEqual(
      failures.map((event) => event.kind),
      ['busy', 'ACQUIRE_TIMEOUT', 'AbortError'],
    )
  })

  it('write down renewals with their deadlines, and a loss', async () => {
    const recorder = await recording(async (locks) => {
      let renewals = 0
      locks.on('renewed', () => renewals++)
      // It is to be renewed although the machine is paused for a moment.
      const lease = await locks.mutex('x').acquire({ ttl: 6_000 })
      await until(() => renewals > 0)
      await locks.forceRelease('x')
      await until(() => lease.state === 'lost')
      await lease.release()
    })
    const { events, acquisitions } = recorder.history()
    const renewals = events.filter((event) => event.op === 'renew')
    assert.ok(renewals.length >= 1 && renewals.every((event) => event.until! > event.t))
    assert.ok(acquisitions[0]!.lost! < acquisitions[0]!.releasing!)
  })

  it('write down a shorter term when it is asked for, and an operator who takes the lock', async () => {
    const recorder = await recording(async (locks) => {
      const lease = await locks.mutex('x').acquire({ ttl: 60_000 })
      const answer = lease.extend(10_000)
      const relied = lease.remaining()
      await answer
      assert.ok(relied <= 10_000, `the holder relied on ${relied} ms`)
      await locks.forceRelease('x')
      await lease.release()
    })
    const { events, acquisitions } = recorder.history()
    const [asked] = events.filter(({ op, phase }) => op === 'renew' && phase === 'invoke')
    assert.ok(asked !== undefined && asked.until! - asked.t <= 10_000e6)
    assert.ok(acquisitions[0]!.until! - acquisitions[0]!.granted! <= 11_000e6)
    assert.deepEqual(
      events.filter(({ op }) => op === 'force').map(({ phase }) => phase),
      ['invoke', 'ok'],
    )
    assert.ok(acquisitions[0]!.forced! >= acquisitions[0]!.granted!)
  })

  it('count entering again as part of the acquisition that holds', async () => {
    const recorder = await recording(async (locks, recorder) => {
      await locks.mutex('x').run(async () => {
        await locks.mutex('x').run(() => undefined, { reentrant: true })
        assert.ok(!told(recorder).includes('release invoke'))
      })
    })
    assert.deepEqual(told(recorder), [
      'acquire invoke',
      'acquire ok',
      'acquire invoke',
      'acquire fail entered again',
      'release invoke',
      'release ok released',
    ])
  })

  it('write down a writer that becomes a reader', async () => {
    const recorder = await recording(async (locks) => {
      const { read, write } = locks.readWrite('x')
      const writer = await write.acquire()
      const reader = await read.acquire({ reentrant: writer })
      await writer.release()
      await reader.release()
    })
    const [one] = recorder.history().acquisitions
    assert.ok(one!.granted! < one!.downgrading! && one!.downgrading! < one!.releasing!)
    assert.deepEqual(check(recorder.history()), [])
  })

  it('write down each part of several locks taken as one', async () => {
    const recorder = await recording(async (locks) => {
      const lease = await locks.all([locks.mutex('b'), locks.readWrite('a').read]).acquire()
      assert.equal(lease.leases.length, 2)
      await lease.release()
    })
    const parts = recorder
      .history()
      .acquisitions.map(({ name, mode, token, released }) => [name, mode, typeof token, typeof released])
    assert.deepEqual(parts, [
      ['b', 'exclusive', 'number', 'number'],
      ['a', 'shared', 'number', 'number'],
    ])
  })

  it('show no violation of the memory driver under load, in all modes', async () => {
    const recorder = await recording(async (locks, recorder) => {
      let counter = 0
      const increment = async (i: number) => {
        await locks.mutex('counter').run(async (lease) => {
          const attempt = `${lease.token}`
          const read = counter
          await new Promise(setImmediate)
          counter = read + 1
          recorder.write({
            op: 'write',
            phase: 'ok',
            name: 'counter',
            attempt,
            token: lease.token,
            value: counter,
          })
        })
        const { read, write } = locks.readWrite('page')
        await (i % 4 === 0 ? write : read).run(() => new Promise(setImmediate))
        await locks
          .semaphore('pool', { permits: 5 })
          .run(() => new Promise(setImmediate), { permits: 1 + (i % 3) })
        await (await locks.mutex('counter').tryAcquire())?.release()
      }
      await Promise.all(Array.from({ length: 100 }, (_, i) => increment(i)))
      for (const name of ['counter', 'page', 'pool']) {
        const { holders, waiters } = await locks.inspect(name)
        recorder.write({
          op: 'standing',
          phase: 'info',
          name,
          holders: holders.length,
          waiters: waiters.length,
        })
      }
    })
    const history = recorder.history()
    assert.deepEqual(
      check(history, { liveness: { within: 60_000 } }).map((one) => one.message),
      [],
    )
    const granted = history.acquisitions.filter((one) => one.granted !== undefined)
    assert.ok(granted.length >= 300)
  })

  it('stop listening once closed', async () => {
    const recorder = memoryRecorder()
    const plain = createLocks(memory())
    const locks = recordLocks(plain, recorder)
    assert.equal(locks.driver, plain.driver)
    await locks.close()
    await assert.rejects(async () => locks.mutex('x'), { code: 'CLOSED' })
    assert.deepEqual(recorder.history().events, [])
  })
})
