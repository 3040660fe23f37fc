/** Chapters about the kinds of locks, and about primitives beyond locks. */
import type { Chapter } from './story.js'

export const reentrancy: Chapter = {
  promise: 'waiting for oneself is an error, entering again is not',
  async play(story) {
    const { a, b, name } = story
    await a.locks.mutex(name).run(async (lease) => {
      await story.ask('a, inside run, acquires', () => a.locks.mutex(name).acquire())
      await story.ask('a, inside run, tries', () => a.locks.mutex(name).tryAcquire())
      const inner = await story.need('a acquires with reentrant: true', () =>
        a.locks.mutex(name).acquire({ reentrant: true }),
      )
      story.note('the same token', inner.token === lease.token)
      story.note('a: holdCount', lease.holdCount)
      await story.ask('a releases the inner one', () => inner.release())
      story.note('a: isHeld, holdCount', [lease.isHeld, lease.holdCount])
      await story.ask('b tries', () => b.locks.mutex(name).tryAcquire())
    })
    const next = await story.need('b tries after run', () => b.locks.mutex(name).tryAcquire())
    await story.ask('b releases', () => next.release())
  },
}

export const readWrite: Chapter = {
  promise: 'readers share, a writer is alone',
  async play(story) {
    const { a, b, c, name } = story
    const ours = await story.need('a makes a read/write lock', () => a.locks.readWrite(name))
    const [theirs, others] = [b.locks.readWrite(name), c.locks.readWrite(name)]
    const reads = await story.need('a reads', () => ours.read.tryAcquire())
    const too = await story.need('b reads', () => theirs.read.tryAcquire())
    await story.ask('c tries to write', () => others.write.tryAcquire())
    for (const [who, lease] of Object.entries({ a: reads, b: too }))
      await story.ask(`${who} releases`, () => lease.release())
    const writes = await story.need('c writes', () => others.write.acquire())
    await story.ask('a tries to read', () => ours.read.tryAcquire())
    const down = await story.need('c goes down to reading', () => others.read.acquire({ reentrant: writes }))
    await story.ask('c releases the writing', () => writes.release())
    const beside = await story.need('a reads', () => ours.read.acquire())
    await story.ask('b tries to write', () => theirs.write.tryAcquire())
    for (const [who, lease] of Object.entries({ a: beside, c: down }))
      await story.ask(`${who} releases`, () => lease.release())
  },
}

export const semaphore: Chapter = {
  promise: 'a semaphore counts by weight',
  async play(story) {
    const { a, b, c, name, context } = story
    const of = { permits: 3 }
    const ours = await story.need('a makes a semaphore of 3', () => a.locks.semaphore(name, of))
    const theirs = b.locks.semaphore(name, of)
    await story.ask('a takes 4', () => ours.acquire({ permits: 4 }))
    const two = await story.need('a takes 2', () => ours.tryAcquire({ permits: 2 }))
    await story.ask('b tries 2', () => theirs.tryAcquire({ permits: 2 }))
    const one = await story.need('b takes 1', () => theirs.tryAcquire())
    const { locks } = context.client()
    await story.ask('another client takes 1 of 4', () => locks.semaphore(name, { permits: 4 }).acquire())
    const next = c.locks.semaphore(name, of).acquire({ permits: 2 })
    await context.queued(a, name, 1)
    await story.ask('a releases', () => two.release())
    const granted = await story.need('c, who waited for 2', () => context.settlesInTime('the permits', next))
    for (const [who, lease] of Object.entries({ b: one, c: granted }))
      await story.ask(`${who} releases`, () => lease.release())
  },
}

export const several: Chapter = {
  promise: 'several locks are taken together, in one step',
  async play(story) {
    const { a, b, c, context } = story
    const names = [context.name('scenario'), context.name('scenario')]
    const [, last = ''] = names
    const all = a.locks.all(names.map((name) => a.locks.mutex(name)))
    const before = a.asked()
    const lease = await story.need('a acquires two', () => all.acquire())
    story.note('requests for a lock', a.asked() - before)
    await story.ask('b tries one of them', () => b.locks.mutex(last).tryAcquire())
    await story.ask('a releases', () => lease.release())
    const held = await story.need('b acquires one of them', () => b.locks.mutex(last).acquire())
    await story.ask('a tries two', () => all.tryAcquire())
    await story.ask('the other is free', () => context.assertFree(c, names[0] ?? '').then(() => true))
    const both = all.acquire({ wait: Number.POSITIVE_INFINITY })
    await context.queued(b, last, 1)
    await story.ask('b releases', () => held.release())
    const next = await story.need('a, who waited', () => context.settlesInTime('both', both))
    await story.ask('a releases', () => next.release())
  },
}

export const inspecting: Chapter = {
  promise: '`inspect`, `list` and `check` name holders and waiters',
  async play(story) {
    const { a, b, c, name, context } = story
    const look = async () => {
      const { holders, waiters } = await c.locks.inspect(name)
      return [holders.map(({ note }) => note ?? '?'), waiters.map(({ note }) => note ?? '?')]
    }
    const seen = async (when: string) => {
      const [holders, waiters] = await look()
      story.note(`c looks ${when}: holders`, holders)
      story.note(`c looks ${when}: waiters`, waiters)
    }
    await seen('before')
    const lease = await story.need('a acquires', () => a.locks.mutex(name).acquire({ note: 'from a' }))
    const next = b.locks.mutex(name).acquire({ note: 'from b' })
    await context.queued(c, name, 1)
    await seen('meanwhile')
    const [holder] = (await c.locks.inspect(name)).holders
    story.note('token, mode and process of the holder', [
      holder?.token === lease.token,
      holder?.mode.kind,
      holder?.client === a.env.client,
    ])
    await story.ask('c checks the token', () => c.locks.check(lease))
    await story.ask('c lists the name', async () => (await c.locks.list(name)).map(() => 'it is there'))
    await story.ask('a releases', () => lease.release())
    const granted = await story.need('b, who waited', () => context.settlesInTime('the hand-over', next))
    await story.ask('c checks the old token', () => c.locks.check(lease))
    await story.ask('b releases', () => granted.release())
  },
}

export const cells: Chapter = {
  promise: 'small values beside the locks: `once` and others',
  async play(story) {
    const { a, b, name } = story
    let runs = 0
    const pay = () => `receipt ${++runs}`
    const keep = { keep: 60_000 }
    await story.need('a pays once', () => a.locks.once(name, pay, keep))
    await story.ask('b pays once', () => b.locks.once(name, pay, keep))
    story.note('runs', runs)
  },
}

export const moving: Chapter = {
  promise: 'a lease moves to another process',
  async play(story) {
    const { a, b, c, name } = story
    const lease = await story.need('a acquires', () => a.locks.mutex(name).acquire())
    let ticket = ''
    await story.need('a exports it', async () => {
      ticket = await a.locks.export(lease)
      return 'a ticket'
    })
    story.note('a: state', lease.state)
    const adopted = await story.need('b adopts it', () => b.locks.adopt(ticket))
    story.note('the same token', adopted.token === lease.token)
    await story.ask('c tries', () => c.locks.mutex(name).tryAcquire())
    await story.ask('c adopts it, too', () => c.locks.adopt(ticket))
    await story.ask('b releases', () => adopted.release())
  },
}
