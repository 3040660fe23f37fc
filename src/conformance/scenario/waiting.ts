/** Chapters about waiters, and about a store that does not answer. */
import type { Chapter } from './story.js'

export const order: Chapter = {
  promise: '`fair: true` is first come, first served',
  async play(story) {
    const { a, b, c, name, context } = story
    const lease = await story.need('a acquires with fair: true', () =>
      a.locks.mutex(name).acquire({ fair: true }),
    )
    const served: string[] = []
    const waits: Promise<unknown>[] = []
    for (const [who, client] of Object.entries({ c, b, a })) {
      waits.push(client.locks.mutex(name).run(() => void served.push(who), { fair: true }))
      await context.queued(a, name, waits.length)
    }
    await story.ask('a releases', () => lease.release())
    await context.settlesInTime('the others to be served', Promise.all(waits))
    story.note('c, b and a waited; served were', served)
  },
}

export const cancelled: Chapter = {
  promise: 'a cancelled wait leaves no trace',
  async play(story) {
    const { a, b, c, name, context } = story
    const lease = await story.need('a acquires', () => a.locks.mutex(name).acquire())
    const stop = new AbortController()
    const reason = new Error('the user went away')
    const gone = b.locks.mutex(name).acquire({ signal: stop.signal })
    await context.queued(a, name, 1)
    stop.abort(reason)
    await story.ask('b, who went away', () => context.settlesInTime('the abort to be heard', gone))
    await context.until('the place to be gone', async () => (await context.waiters(a, name)) === 0)
    const next = c.locks.mutex(name).acquire()
    await context.queued(a, name, 1)
    await story.ask('a releases', () => lease.release())
    const granted = await story.need('c, who waited', () => context.settlesInTime('the hand-over', next))
    await story.ask('c releases', () => granted.release())
  },
}

export const outage: Chapter = {
  promise: 'busy is not broken',
  async play(story) {
    const { a, b, name, context } = story
    const { ttl, timeout } = context
    const lease = await story.need('b acquires', () => b.locks.mutex(name).acquire())
    await story.ask('a tries', () => a.locks.mutex(name).tryAcquire())
    await context.cut(a)
    await story.ask('a, cut off, tries', () =>
      context.settlesInTime(
        'the try to end',
        a.locks.mutex(name).tryAcquire({ ttl }),
        ttl + timeout + 10_000,
      ),
    )
    await story.ask('a, cut off, waits for 300 ms', () => a.locks.mutex(name).acquire({ ttl, wait: 300 }))
    await context.heal()
    story.note('b, who was not cut off: isHeld', lease.isHeld)
    await story.ask('b releases', () => lease.release())
    const next = await story.need('a, healed, acquires', () =>
      a.locks.mutex(name).acquire({ wait: 2 * ttl + timeout }),
    )
    await story.ask('a releases', () => next.release())
  },
}

export const badInput: Chapter = {
  promise: 'bad input is refused before anything is sent',
  async play(story) {
    const { a, name } = story
    const lock = a.locks.mutex(name)
    const before = a.asked()
    await story.ask('a waits for -1 ms', () => lock.acquire({ wait: -1 }))
    await story.ask('a acquires for 0 ms', () => lock.acquire({ ttl: 0 }))
    await story.ask('a acquires for ever', () => lock.acquire({ ttl: Number.POSITIVE_INFINITY }))
    await story.ask('a misspells wait', () => lock.acquire({ wiat: 1 } as object))
    await story.ask('a names a lock nothing', () => a.locks.mutex(''))
    await story.ask('a names a lock with a control character', () => a.locks.mutex('x\u0000'))
    await story.ask('a comes with an aborted signal', () =>
      lock.acquire({ signal: AbortSignal.abort(new Error('too late')) }),
    )
    story.note('requests for a lock', a.asked() - before)
  },
}
