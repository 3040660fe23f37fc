/** Chapters about a held lock: granted, kept, handed over, released. */
import type { Lease } from 'holdfast'
import { pause } from '../test-context.js'
import type { Chapter } from './story.js'

export const free: Chapter = {
  promise: 'a free lock is granted, a taken one is not',
  async play(story) {
    const { a, b, name, context } = story
    const lease = await story.need('a tries', () => a.locks.mutex(name).tryAcquire())
    story.note('a: state, isHeld, holdCount', [lease.state, lease.isHeld, lease.holdCount])
    await story.ask('b tries', () => b.locks.mutex(name).tryAcquire())
    await story.ask('b asks without waiting', () => b.locks.mutex(name).acquire({ wait: 0 }))
    const waited = b.locks.mutex(name).acquire({ wait: 2_000 })
    await story.ask('b waits for 2 s', () => waited)
    const named = await waited.catch((error: { holder?: { token?: number } }) => error.holder?.token)
    story.note('the error names the holder', named === lease.token)
    // Its queue entry may be removed a moment after the error, and no try overtakes it.
    await context.until('the place to be gone', async () => (await context.waiters(a, name)) === 0)
    await story.ask('a releases', () => lease.release())
    await story.ask('a releases again', () => lease.release())
    story.note('a: state, isHeld, holdCount', [lease.state, lease.isHeld, lease.holdCount])
    story.note('a: the signal is aborted', lease.signal.aborted)
    await story.ask('a asserts that it holds', () => lease.assertHeld())
    const next = await story.need('b tries', () => b.locks.mutex(name).tryAcquire())
    await story.ask('b releases', () => next.release())
  },
}

export const handOver: Chapter = {
  promise: 'a waiter gets the released lock, and no try passes it',
  async play(story) {
    const { a, b, c, name, context } = story
    const lease = await story.need('a acquires', () => a.locks.mutex(name).acquire())
    const next = b.locks.mutex(name).acquire({ wait: Number.POSITIVE_INFINITY })
    await context.queued(a, name, 1)
    const released = lease.release()
    const passed = await story.ask('c tries while a releases', () => c.locks.mutex(name).tryAcquire())
    await passed?.release()
    await story.ask('a releases', () => released)
    const granted = await story.need('b, who waited', () => context.settlesInTime('the hand-over', next))
    story.note('b has a greater token than a had', granted.token > lease.token)
    await story.ask('c tries', () => c.locks.mutex(name).tryAcquire())
    await story.ask('b releases', () => granted.release())
  },
}

export const firstSecond: Chapter = {
  promise: 'a lease is worth its ttl from its first moment',
  async play(story) {
    const { a, b, c, name, context } = story
    const ttl = 8_000
    const share = (lease: Lease, since: number) => (lease.remaining() + performance.now() - since) / lease.ttl
    const asked = performance.now()
    const lease = await story.need('a acquires', () => a.locks.mutex(name).acquire({ ttl }))
    story.note('a: nine tenths of its ttl are left', share(lease, asked) >= 0.9)
    const next = b.locks.mutex(name).acquire({ ttl })
    // Adds back the time spent by machine and store.
    let began = performance.now()
    const left = next.then(
      (granted) => share(granted, began),
      () => 0,
    )
    await context.queued(a, name, 1)
    began = performance.now()
    await story.ask('a releases', () => lease.release())
    const granted = await story.need('b, who waited', () => context.settlesInTime('the hand-over', next))
    story.note('b: nine tenths of its ttl are left', (await left) >= 0.9)
    await story.ask('b asserts that it holds', () => granted.assertHeld())
    await pause(1_000)
    story.note('b a second later: isHeld', granted.isHeld)
    await story.ask('c tries', () => c.locks.mutex(name).tryAcquire())
    await story.ask('b releases', () => granted.release())
  },
}

export const extending: Chapter = {
  promise: '`extend` works in both directions',
  async play(story) {
    const { a, b, name, context } = story
    const ttl = 10_000
    const lease = await story.need('a acquires for 10 s, without renewal', () =>
      a.locks.mutex(name).acquire({ ttl, autoRenew: false }),
    )
    const remaining = lease.remaining()
    await story.ask('a extends to no number', () => lease.extend(Number.NaN))
    await story.ask('a extends to 0 ms', () => lease.extend(0))
    await story.ask('a extends for ever', () => lease.extend(Number.POSITIVE_INFINITY))
    story.note('a: as long as before', lease.isHeld && lease.ttl <= ttl && lease.remaining() <= remaining)
    const asked = performance.now()
    const longer = await lease.extend(30_000)
    story.note('a extends to 30 s: nine tenths are left', longer + performance.now() - asked >= 27_000)
    const shorter = await lease.extend(context.momentary)
    story.note('a extends to less: no more than that is left', shorter <= context.momentary)
    const next = await story.need('b waits for the end of it', () =>
      b.locks.mutex(name).acquire({ wait: 30_000 + context.timeout }),
    )
    story.note('a when b has it: isHeld', lease.isHeld)
    await story.ask('b releases', () => next.release())
  },
}

export const tokens: Chapter = {
  promise: 'tokens grow with every grant',
  async play(story) {
    const { a, b, name, context } = story
    const given: number[] = []
    const first = await story.need('a acquires', () => a.locks.mutex(name).acquire())
    given.push(first.token)
    await first.extend()
    story.note('a extends: the same token', first.token === given[0])
    const next = b.locks.mutex(name).acquire()
    await context.queued(a, name, 1)
    await first.release()
    const second = await story.need('b, who waited', () => context.settlesInTime('the hand-over', next))
    given.push(second.token)
    await story.ask('b releases', () => second.release())
    const enter = () => a.locks.mutex(name).run(({ token }) => void given.push(token))
    await story.ask('a runs three times at once', () =>
      Promise.all([enter(), enter(), enter()]).then(() => 'done'),
    )
    const silent = await story.need('a acquires, without renewal', () =>
      a.locks.mutex(name).acquire({ ttl: context.ttl, autoRenew: false }),
    )
    given.push(silent.token)
    const last = await story.need('b waits for the end of it', () =>
      b.locks.mutex(name).acquire({ wait: 3 * context.ttl + context.timeout }),
    )
    given.push(last.token)
    await story.ask('b releases', () => last.release())
    story.note('tokens', given.length)
    story.note('all are safe integers', given.every(Number.isSafeInteger))
    story.note(
      'each is greater than the one before',
      given.every((token, i) => token > (given[i - 1] ?? 0)),
    )
  },
}
