/** Chapters about a lock that its holder loses, or that becomes free with its holder's end. */
import { acquireInChild } from '../child-process.js'
import type { Chapter, Story } from './story.js'

export const expiry: Chapter = {
  promise: 'a lease that runs out is lost in one way, for good',
  async play(story) {
    const { a, b, c, name, context } = story
    const lease = await story.need('a acquires, without renewal', () =>
      a.locks.mutex(name).acquire({ ttl: context.ttl, autoRenew: false }),
    )
    const loss = story.loss(a, lease)
    const next = await story.need('b waits for the end of it', () =>
      b.locks.mutex(name).acquire({ wait: 3 * context.ttl + context.timeout }),
    )
    story.note('a when b has it: isHeld', lease.isHeld)
    story.note('a hears of the loss', await loss.told(context.timeout))
    story.note('a: state, isHeld, remaining', [lease.state, lease.isHeld, lease.remaining()])
    story.note('a: the reason of the signal', lease.signal.reason)
    await story.ask('a asserts that it holds', () => lease.assertHeld())
    await story.ask('a extends', () => lease.extend())
    await story.ask('a releases, too late', () => lease.release())
    await story.ask('a releases again', () => lease.release())
    story.note('b: isHeld', next.isHeld)
    await story.ask('c tries', () => c.locks.mutex(name).tryAcquire())
    await story.ask('b releases', () => next.release())
  },
}

export const byForce: Chapter = {
  promise: 'a forced release is heard at once',
  async play(story) {
    const { a, b, c, name, context } = story
    const reportsLoss = context.fixture.reportsLoss === true
    const ttl = reportsLoss ? 60_000 : Math.max(context.ttl, 3_000)
    await story.need('c releases a free lock by force', () => c.locks.forceRelease(name))
    // By the second time, a is certainly subscribed.
    await (await waited(story, ttl)).release()
    const lease = await story.need('a, who waited', () => waited(story, ttl))
    const loss = story.loss(a, lease)
    await story.ask('c releases it by force', () => c.locks.forceRelease(name))
    story.note('a hears of the loss', await loss.told(reportsLoss ? context.timeout : ttl + context.timeout))
    story.note('a: state, isHeld, remaining', [lease.state, lease.isHeld, lease.remaining()])
    const { reason } = lease.signal
    await story.ask('a asserts: the reason of the signal', () => {
      try {
        lease.assertHeld()
      } catch (error) {
        return error === reason
      }
      return 'it holds'
    })
    const next = await story.need('b acquires', () => b.locks.mutex(name).acquire())
    await story.ask('a releases, too late', () => lease.release())
    story.note('b: isHeld', next.isHeld)
    await story.ask('c tries', () => c.locks.mutex(name).tryAcquire())
    await story.ask('b releases', () => next.release())
  },
}

/** `a` acquires the lock after `b`. */
async function waited({ a, b, name, context }: Story, ttl: number) {
  const first = await b.locks.mutex(name).acquire()
  const next = a.locks.mutex(name).acquire({ ttl })
  await context.queued(b, name, 1)
  await first.release()
  return context.settlesInTime('the hand-over', next)
}

export const delay: Chapter = {
  promise: '`lockDelay` keeps others out after a loss',
  async play(story) {
    const { a, b, name, context } = story
    const lockDelay = Math.min(context.ttl / 2, context.fixture.traits.maxLockDelay ?? context.ttl / 2)
    const options = { ttl: context.ttl, lockDelay, autoRenew: false }
    const first = await story.need('a acquires with a lockDelay', () => a.locks.mutex(name).acquire(options))
    await story.ask('a releases', () => first.release())
    const second = await story.need('b acquires at once', () => b.locks.mutex(name).acquire())
    await story.ask('b releases', () => second.release())
    const asked = performance.now()
    const lease = await story.need('a acquires, without renewal', () => a.locks.mutex(name).acquire(options))
    const next = await story.need('b waits for the end of it', () =>
      b.locks.mutex(name).acquire({ wait: 3 * context.ttl + context.timeout }),
    )
    const kept = performance.now() - asked
    story.note('ttl and lockDelay have passed', kept >= context.ttl * 0.95 + lockDelay)
    story.note('a when b has it: isHeld', lease.isHeld)
    await story.ask('b releases', () => next.release())
  },
}

export const crash: Chapter = {
  promise: 'a holder that is killed keeps nobody out for long',
  async play(story) {
    const { a, b, name, context } = story
    const { traits, childClient } = context.fixture
    if (!traits.shared) {
      story.note('another process', 'does not see the store')
      story.end()
    }
    if (childClient === undefined) throw new Error('the fixture needs a childClient')
    story.note('another process', 'sees the store')
    const child = acquireInChild(context, childClient, name, context.ttl)
    const { token } = await child.received('granted')
    await story.ask('a tries while that process has it', () => a.locks.mutex(name).tryAcquire())
    const next = b.locks.mutex(name).acquire({ wait: Number.POSITIVE_INFINITY })
    await context.queued(a, name, 1)
    await child.kill()
    const lease = await story.need('b, who waited, after it was killed', () =>
      context.settlesInTime('the lock to be free', next, 2 * Math.max(context.ttl, 2_000) + context.timeout),
    )
    story.note('b has a greater token than it had', lease.token > token)
    await story.ask('b releases', () => lease.release())
  },
}

export const closing: Chapter = {
  promise: '`close` gives everything back',
  async play(story) {
    const { a, b, name, context } = story
    const other = context.name('scenario')
    const lease = await story.need('a acquires', () => a.locks.mutex(name).acquire())
    const theirs = await story.need('b acquires another', () => b.locks.mutex(other).acquire())
    const waits = a.locks.mutex(other).acquire()
    await context.queued(b, other, 1)
    await a.locks.close()
    await story.ask('a, who waited for that and closed', () => waits)
    story.note('a: isHeld', lease.isHeld)
    await story.ask('a acquires, closed', () => a.locks.mutex(name))
    const next = await story.need('b acquires what a had', () => b.locks.mutex(name).acquire())
    await context.until('the place to be gone', async () => (await context.waiters(b, other)) === 0)
    for (const one of [next, theirs]) await story.ask('b releases', () => one.release())
  },
}
