// The behaviour that the Web Locks specification states, one test a clause, in our own words. Each title begins with the section.
// Long because the sections stand in one list, in the order of the specification.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { LeaseLostError } from 'holdfast'
import { type GrantedLock, type LockManager, lockManager } from 'holdfast/web-locks'
import { until } from '../support/until.js'
import type { Client, Store } from './stores.js'

/** Whose clauses are tested. */
export interface Subject {
  /** A manager of the client of that name, which shares nothing with the others. `ttl` in ms, where locks have one. */
  manager(clientId: string, ttl?: number): LockManager
  /** What `query` calls that client. */
  idOf(clientId: string): string
  /** Clients end with all they have: a manager, and what ends it. */
  mortal?(): { manager: LockManager; end(): Promise<void> }
  /** Where locks are leases over a store, that store. */
  readonly over?: Store
}

let count = 0
const fresh = (): string => `resource ${++count}`
/** A renewal every other second: who is stolen from in another process learns of it with the next one. */
const briefly = 6000
const named = (name: string) => (error: unknown) => error instanceof DOMException && error.name === name

interface Held {
  readonly lock: GrantedLock
  readonly settled: Promise<unknown>
  done(result?: unknown): void
  fail(error: unknown): void
}

/** Takes a lock and holds it until told. */
function hold(manager: LockManager, name: string, options = {}): Promise<Held> {
  return new Promise((resolve, reject) => {
    const settled = manager.request(name, options, (lock) => {
      return new Promise((done, fail) => {
        assert.ok(lock)
        // Later: there are some that call back before they return.
        queueMicrotask(() => resolve({ lock, settled, done, fail }))
      })
    })
    settled.catch(reject)
  })
}

const states = async (manager: LockManager, name: string) => {
  const { held, pending } = await manager.query()
  const of = (list: typeof held) => list.filter((info) => info.name === name)
  return { held: of(held), pending: of(pending) }
}

/** Every clause on each of these stores. */
export function overStores(stores: Readonly<Record<string, () => Promise<Store>>>): void {
  for (const [where, open] of Object.entries(stores)) {
    describe(`Web Locks over ${where}`, () => {
      let store: Store
      // A lock alone does not keep a process alive, and in one process there is nothing else.
      let alive: NodeJS.Timeout
      before(async () => {
        alive = setInterval(() => undefined, 1000)
        store = await open()
      })
      after(async () => {
        clearInterval(alive)
        await store[Symbol.asyncDispose]()
      })
      const clients = new Map<string, Client>()
      const client = (clientId: string) => {
        const known = clients.get(clientId) ?? store.client()
        clients.set(clientId, known)
        return known
      }
      clauses(where, () => ({
        over: store,
        idOf: (clientId) => clientId,
        manager: (clientId, ttl) =>
          lockManager(client(clientId), { clientId, ...(ttl !== undefined && { ttl }) }),
        mortal() {
          const client = store.client()
          return { manager: lockManager(client), end: () => client.close() }
        },
      }))
    })
  }
}

/** @param subject asked when the first clause begins */
export function clauses(where: string, subject: () => Subject, limit = 60_000): void {
  let one: LockManager
  let two: LockManager
  const made = new Set<LockManager>()
  const make = (clientId: string, ttl?: number) => {
    const manager = subject().manager(clientId, ttl)
    made.add(manager)
    return manager
  }
  /** What only a lease can show. */
  const ofLease = (what: () => void) => subject().over && what()
  const clause = (title: string, fn: (brief: () => [LockManager, LockManager]) => Promise<void>) =>
    test(`${title} (${where})`, { timeout: limit }, async () => {
      if (one === undefined) {
        one = make('one')
        two = make('two')
      }
      await fn(() => [make('one', briefly), make('two', briefly)])
    })
  /** A query of each manager sees what was requested of it before, so nothing is waited for. */
  const pendingOf = async (manager: LockManager, name: string, wanted: number) => {
    for (const each of made) await each.query()
    assert.equal((await states(manager, name)).pending.length, wanted)
  }

  /** The store learns of an end after the request has been rejected. */
  const goneTo = (manager: LockManager, name: string, wanted: number) =>
    until(async () => (await states(manager, name)).pending.length === wanted, { what: `${wanted} pending` })

  clause('2.1 Resource names: any string names a lock of its own', async () => {
    const odd = [
      '',
      ' ',
      'a\u0000b',
      '\n',
      '\ud800',
      '\udc00',
      '\udc00\ud800',
      '%u0000',
      '\u0000',
      '%h',
      '{a}',
      '💾',
      'ä',
      'a\u0308',
      '\uffff',
      'x'.repeat(5000),
      'x'.repeat(5001),
    ]
    const held = await Promise.all(odd.map((name) => hold(one, name)))
    assert.deepEqual(
      held.map(({ lock }) => lock.name),
      odd,
    )
    const { held: listed } = await one.query()
    assert.deepEqual(listed.map(({ name }) => name).sort(), [...odd].sort())
    for (const { done } of held) done()
    await Promise.all(held.map(({ settled }) => settled))
  })

  clause('2.3 Modes: exclusive holds exclude each other, also between clients', async () => {
    const name = fresh()
    let inside = 0
    let most = 0
    const visit = async () => {
      most = Math.max(most, ++inside)
      await new Promise((resolve) => setTimeout(resolve, 2))
      inside--
    }
    await Promise.all([one, two, one, two, one, two].map((manager) => manager.request(name, visit)))
    assert.equal(most, 1)
  })

  clause('2.3 Modes: shared holds share, and wait for an exclusive one', async () => {
    const name = fresh()
    const readers = [await hold(one, name, { mode: 'shared' }), await hold(two, name, { mode: 'shared' })]
    const order: string[] = []
    const writer = two.request(name, () => order.push('writer'))
    await pendingOf(one, name, 1)
    const late = one.request(name, { mode: 'shared' }, () => order.push('late reader'))
    await pendingOf(two, name, 2)
    readers[0]!.done()
    await readers[0]!.settled
    assert.deepEqual(order, [])
    readers[1]!.done()
    await Promise.all([writer, late])
    assert.deepEqual(order, ['writer', 'late reader'])
  })

  clause('2.3 Modes: other names are not concerned', async () => {
    const held = await hold(one, fresh())
    assert.equal(await two.request(fresh(), () => 'free'), 'free')
    held.done()
    await held.settled
  })

  clause('2.5 Termination of locks: when a client ends, its locks and requests go with it', async () => {
    const name = fresh()
    const other = subject().mortal?.()
    assert.ok(other, 'this client cannot be ended alone')
    const third = other.manager
    const held = await hold(third, name)
    const waiting = third.request(name, () => 'never')
    waiting.catch(() => undefined)
    await third.query()
    await pendingOf(one, name, 1)
    const next = one.request(name, () => 'granted')
    await other.end()
    assert.equal(await next, 'granted')
    await assert.rejects(waiting, { code: 'CLOSED' })
    held.settled.catch(() => undefined)
    held.done()
  })

  clause('3.2.1 request(): the result of the callback is the result of the request', async () => {
    assert.equal(await one.request(fresh(), () => 7), 7)
    assert.equal(await one.request(fresh(), async () => 8), 8)
    assert.equal(await one.request(fresh(), {}, async () => 9), 9)
    assert.equal(await one.request(fresh(), () => undefined), undefined)
  })

  clause(
    '3.2.1 request(): an error of the callback is that of the request, and the lock is free',
    async () => {
      const name = fresh()
      const error = new Error('mine')
      const throws = () => {
        throw error
      }
      await assert.rejects(one.request(name, throws), error)
      await assert.rejects(
        one.request(name, () => Promise.reject(error)),
        error,
      )
      assert.equal(await two.request(name, { ifAvailable: true }, (lock) => lock?.name), name)
    },
  )

  clause('3.2.1 request(): it is always a promise, and the callback is called later', async () => {
    let called = false
    const promise = one.request(fresh(), () => {
      called = true
    })
    assert.equal(called, false)
    assert.ok(promise instanceof Promise)
    await promise
    assert.equal(called, true)
  })

  clause('3.2.1 request(): the lock is free once the request has settled', async () => {
    const name = fresh()
    for (const manager of [one, two, one, two]) {
      await manager.request(name, { ifAvailable: true }, (lock) => assert.ok(lock))
    }
  })

  clause('3.2.1 request(): a name that begins with "-" is NotSupportedError', async () => {
    for (const name of ['-', '-foo']) {
      await assert.rejects(
        one.request(name, () => undefined),
        named('NotSupportedError'),
      )
    }
    assert.equal(await one.request('a-b', () => 'fine'), 'fine')
  })

  clause('3.2.1 request(): options that exclude each other are NotSupportedError', async () => {
    const { signal } = new AbortController()
    for (const options of [
      { steal: true, ifAvailable: true as const },
      { steal: true, mode: 'shared' as const },
      { steal: true, signal },
      { ifAvailable: true as const, signal },
    ]) {
      await assert.rejects(
        one.request(fresh(), options, () => undefined),
        named('NotSupportedError'),
      )
    }
  })

  clause('3.2.1 request(): arguments of the wrong kind are TypeErrors, as rejections', async () => {
    const request = one.request.bind(one) as (...args: unknown[]) => Promise<unknown>
    const callback = () => undefined
    const wrong: unknown[][] = [
      [],
      ['name'],
      ['name', {}],
      ['name', null],
      ['name', {}, null],
      ['name', 7, callback],
      ['name', 'exclusive', callback],
      [Symbol('name'), callback],
      ['name', { mode: 'both' }, callback],
      ['name', { mode: null }, callback],
      ['name', { signal: null }, callback],
      ['name', { signal: {} }, callback],
    ]
    for (const args of wrong) {
      let promise: Promise<unknown> | undefined
      assert.doesNotThrow(() => (promise = request(...args)))
      await assert.rejects(promise as Promise<unknown>, TypeError, JSON.stringify(args))
    }
  })

  clause('3.2.1 request(): names and options are converted as Web IDL does', async () => {
    const request = one.request.bind(one) as (...args: unknown[]) => Promise<unknown>
    const read = (lock: GrantedLock | null) => `${lock?.name} ${lock?.mode}`
    assert.equal(await request(7, read), '7 exclusive')
    assert.equal(await request(undefined, read), 'undefined exclusive')
    assert.equal(await request('n', null, read), 'n exclusive')
    assert.equal(await request('n', undefined, read), 'n exclusive')
    assert.equal(await request('n', { mode: undefined, signal: undefined, steal: 0 }, read), 'n exclusive')
    assert.equal(await request('n', { ifAvailable: 'yes', mode: 'shared' }, read), 'n shared')
    assert.equal(await request('n', () => undefined, read), 'n exclusive')
  })

  clause('3.2.1 request(): a signal that is aborted already rejects with its reason', async () => {
    const reason = new Error('changed my mind')
    const called = one.request(fresh(), { signal: AbortSignal.abort(reason) }, () => assert.fail('called'))
    await assert.rejects(called, reason)
    const plain = one.request(fresh(), { signal: AbortSignal.abort() }, () => assert.fail('called'))
    await assert.rejects(plain, named('AbortError'))
  })

  clause('3.2.1 options.signal: it ends the wait, and the place in the queue is gone', async () => {
    const name = fresh()
    const held = await hold(one, name)
    const controller = new AbortController()
    const waiting = two.request(name, { signal: controller.signal }, () => assert.fail('called'))
    const behind = two.request(name, () => 'behind')
    await pendingOf(one, name, 2)
    controller.abort()
    await assert.rejects(waiting, named('AbortError'))
    await goneTo(one, name, 1)
    held.done()
    assert.equal(await behind, 'behind')
  })

  clause('3.2.1 options.signal: once the lock is granted it is ignored', async () => {
    const name = fresh()
    const controller = new AbortController()
    const held = await hold(one, name, { signal: controller.signal })
    controller.abort()
    ofLease(() => assert.equal(held.lock.lease.isHeld, true))
    assert.equal(await two.request(name, { ifAvailable: true }, (lock) => lock), null)
    held.done('kept')
    assert.equal(await held.settled, 'kept')
  })

  clause('3.2.2 query(): who holds and who waits, in order, with mode and client', async () => {
    const { idOf } = subject()
    const name = fresh()
    const held = await hold(one, name, { mode: 'shared' })
    const also = await hold(two, name, { mode: 'shared' })
    const first = two.request(name, () => 1)
    await pendingOf(one, name, 1)
    const second = one.request(name, { mode: 'shared' }, () => 2)
    await pendingOf(one, name, 2)
    for (const manager of [one, two]) {
      assert.deepEqual(await states(manager, name), {
        held: [
          { name, mode: 'shared', clientId: idOf('one') },
          { name, mode: 'shared', clientId: idOf('two') },
        ],
        pending: [
          { name, mode: 'exclusive', clientId: idOf('two') },
          { name, mode: 'shared', clientId: idOf('one') },
        ],
      })
    }
    held.done()
    also.done()
    assert.deepEqual(await Promise.all([first, second]), [1, 2])
    assert.deepEqual(await states(two, name), { held: [], pending: [] })
  })

  clause('3.2.2 query(): sees what was requested and let go of before it', async () => {
    const name = fresh()
    const held = hold(one, name)
    assert.equal((await states(one, name)).held.length, 1)
    const modes = ['exclusive', 'shared', 'shared', 'exclusive'] as const
    const all = modes.map((mode, i) => one.request(name, { mode }, () => i))
    assert.deepEqual(
      (await states(one, name)).pending.map(({ mode }) => mode),
      [...modes],
    )
    const { done, settled } = await held
    done()
    await settled
    assert.deepEqual(await Promise.all(all), [0, 1, 2, 3])
    assert.deepEqual(await states(one, name), { held: [], pending: [] })
  })

  clause('3.2.2 query(): held locks in the order of their grants, also of several names', async () => {
    const names = ['c', 'a', 'd', 'b'].map((letter) => `${fresh()} ${letter}`)
    const helds = names.map((name) => hold(one, name))
    const { held } = await one.query()
    assert.deepEqual(
      held.map(({ name }) => name).filter((name) => names.includes(name)),
      names,
    )
    for (const one of helds) {
      const { done, settled } = await one
      done()
      await settled
    }
  })

  clause('3.2.2 query(): a snapshot is plain data that no later change reaches', async () => {
    const name = fresh()
    const held = await hold(one, name)
    const before = await one.query()
    held.done()
    await held.settled
    assert.equal(Object.getPrototypeOf(before), Object.prototype)
    assert.ok(before.held.some((info) => info.name === name))
  })

  clause('3.2.2 query(): other locks of the store are not told', async () => {
    const name = fresh()
    await using _ = await subject().over?.client().mutex(name).acquire()
    assert.deepEqual(await states(two, name), { held: [], pending: [] })
    assert.equal(await two.request(name, () => 'another name space'), 'another name space')
  })

  clause('3.3 Lock: name and mode, read-only; the lease is there but does not show', async () => {
    const held = await hold(one, 'n', { mode: 'shared' })
    const { name, mode } = held.lock
    assert.deepEqual({ name, mode }, { name: 'n', mode: 'shared' })
    // Attributes stand in the prototype, as those of every interface do.
    assert.deepEqual(Object.keys(held.lock), [])
    const seen: string[] = []
    for (const key in held.lock) seen.push(key)
    assert.deepEqual(seen.sort(), ['mode', 'name'])
    assert.equal(Object.prototype.toString.call(held.lock), '[object Lock]')
    assert.equal(Object.prototype.toString.call(one), '[object LockManager]')
    assert.throws(() => Object.assign(held.lock, { name: 'm' }), TypeError)
    ofLease(() => assert.ok(held.lock.lease.token > 0))
    held.done()
    await held.settled
  })

  clause('4.1 Request a lock: first come, first served, in one client', async () => {
    const name = fresh()
    const held = await hold(one, name)
    const order: number[] = []
    const all = Array.from({ length: 12 }, (_, i) => one.request(name, () => order.push(i)))
    await pendingOf(two, name, 12)
    held.done()
    await Promise.all(all)
    assert.deepEqual(
      order,
      order.map((_, i) => i),
    )
    assert.equal(order.length, 12)
  })

  clause(
    '4.1 Request a lock: free locks of several names call back in the order of the requests',
    async () => {
      const order: number[] = []
      const names = Array.from({ length: 20 }, () => fresh())
      const taken = await hold(two, names[7] as string)
      const all = names.map((name, i) => one.request(name, () => order.push(i)))
      await one.request(fresh(), () => order.push(20))
      const free = Array.from({ length: 21 }, (_, i) => i).filter((i) => i !== 7)
      assert.deepEqual(order, free)
      taken.done()
      await Promise.all(all)
      assert.deepEqual(order, [...free, 7])
    },
  )

  clause('4.1 Request a lock: first come, first served, between clients', async () => {
    const name = fresh()
    const held = await hold(one, name)
    const order: number[] = []
    const all: Promise<number>[] = []
    for (let i = 0; i < 10; i++) {
      all.push((i % 2 === 0 ? one : two).request(name, () => order.push(i)))
      await pendingOf(two, name, i + 1)
    }
    held.done()
    await Promise.all(all)
    assert.deepEqual(order, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
  })

  clause('4.1 Request a lock: ifAvailable calls back with null, and its result counts', async () => {
    const name = fresh()
    const held = await hold(one, name)
    for (const manager of [one, two]) {
      const result = await manager.request(name, { ifAvailable: true }, (lock) =>
        lock === null ? 'busy' : 'got',
      )
      assert.equal(result, 'busy')
      const error = new Error('mine')
      await assert.rejects(
        manager.request(name, { ifAvailable: true }, () => Promise.reject(error)),
        error,
      )
    }
    assert.equal((await states(two, name)).pending.length, 0)
    held.done()
    await held.settled
  })

  clause('4.1 Request a lock: ifAvailable shares with readers, but passes nobody who waits', async () => {
    const name = fresh()
    const reader = await hold(one, name, { mode: 'shared' })
    const ask = (manager: LockManager) =>
      manager.request(name, { mode: 'shared', ifAvailable: true }, (lock) => lock?.mode ?? null)
    assert.equal(await ask(one), 'shared')
    assert.equal(await ask(two), 'shared')
    const writer = two.request(name, () => 'written')
    await pendingOf(one, name, 1)
    assert.equal(await ask(one), null)
    reader.done()
    assert.equal(await writer, 'written')
  })

  clause('4.1 Request a lock: two requests in one tick are taken in their order', async () => {
    const name = fresh()
    let second: Promise<unknown> | undefined
    // Holds until the second has its answer, however slowly that one reaches the store.
    const first = one.request(name, async () => {
      await undefined
      await second
      return 'first'
    })
    second = one.request(name, { ifAvailable: true }, (lock) => lock)
    assert.deepEqual(await Promise.all([first, second]), ['first', null])
  })

  clause('4.1 Request a lock: not reentrant; a request inside its own lock waits', async () => {
    const name = fresh()
    const inner = await one.request(name, () => one.request(name, { ifAvailable: true }, (lock) => lock))
    assert.equal(inner, null)
    const signal = AbortSignal.timeout(100)
    await assert.rejects(
      one.request(name, () => one.request(name, { signal }, () => 'never')),
      named('TimeoutError'),
    )
  })

  clause('4.1 Request a lock, steal: a free lock is simply taken', async () => {
    assert.equal(await one.request(fresh(), { steal: true }, () => 'mine'), 'mine')
  })

  clause(
    '4.1 Request a lock, steal: the holder is rejected with AbortError while its code goes on',
    async (brief) => {
      const [one, two] = brief()
      for (const victim of [one, two]) {
        const name = fresh()
        const held = await hold(victim, name)
        const thief = await hold(one, name, { steal: true })
        await assert.rejects(held.settled, (error) => {
          assert.ok(named('AbortError')(error))
          ofLease(() => assert.ok((error as DOMException).cause instanceof LeaseLostError))
          return true
        })
        ofLease(() => assert.equal(held.lock.lease.isHeld, false))
        assert.deepEqual((await states(two, name)).held, [
          { name, mode: 'exclusive', clientId: subject().idOf('one') },
        ])
        held.done('too late')
        ofLease(() => assert.equal(thief.lock.lease.isHeld, true))
        ofLease(() => assert.ok(thief.lock.lease.token > held.lock.lease.token))
        thief.done('stolen')
        assert.equal(await thief.settled, 'stolen')
      }
    },
  )

  clause(
    '4.1 Request a lock, steal: two thefts at once both come about, one after the other',
    async (brief) => {
      const [first, second] = brief()
      for (const [a, b] of [
        [first, first],
        [first, second],
      ] as const) {
        const name = fresh()
        const victim = await hold(a, name)
        const came: string[] = []
        const callbacks: Promise<void>[] = []
        const robbed = [a, b].map((manager, i) => {
          let called = () => {}
          callbacks.push(new Promise((resolve) => (called = resolve)))
          const settled = manager.request(name, { steal: true }, () => {
            came.push(`${i}`)
            called()
            return new Promise(() => undefined)
          })
          return settled.then(
            () => assert.fail('it was never stolen'),
            (error: unknown) => {
              assert.ok(named('AbortError')(error), String(error))
              return i
            },
          )
        })
        await assert.rejects(victim.settled, named('AbortError'))
        // Two managers may come in either order; the next thief would come between them.
        await Promise.all(callbacks)
        // The one that was stolen from is rejected, the other one holds.
        const loser = await Promise.race(robbed)
        assert.equal(await b.request(name, { ifAvailable: true }, (lock) => lock), null)
        assert.equal((await states(b, name)).held.length, 1)
        if (a === b) assert.deepEqual([came, loser], [['0', '1'], 0])
        assert.equal(await b.request(name, { steal: true }, () => 'the last one'), 'the last one')
        await Promise.all(robbed)
      }
    },
  )

  clause('4.1 Request a lock, steal: every reader loses it', async (brief) => {
    const [one, two] = brief()
    const name = fresh()
    const readers = [
      await hold(one, name, { mode: 'shared' }),
      await hold(two, name, { mode: 'shared' }),
      await hold(one, name, { mode: 'shared' }),
    ]
    const all = Promise.allSettled(readers.map(({ settled }) => settled))
    assert.equal(await two.request(name, { steal: true }, () => 'mine'), 'mine')
    assert.deepEqual(
      (await all).map((result) => result.status === 'rejected' && result.reason.name),
      ['AbortError', 'AbortError', 'AbortError'],
    )
    for (const { done } of readers) done()
  })

  clause('4.1 Request a lock, steal: goes before all who wait, and they keep their order', async (brief) => {
    const [one, two] = brief()
    const name = fresh()
    const held = await hold(one, name)
    held.settled.catch(() => undefined)
    const order: string[] = []
    const waiting: Promise<unknown>[] = []
    for (const [at, manager] of [one, two, one].entries()) {
      waiting.push(manager.request(name, () => order.push(`waiter ${at}`)))
      await pendingOf(two, name, at + 1)
    }
    const thief = await hold(two, name, { steal: true })
    order.push('thief')
    await assert.rejects(held.settled, named('AbortError'))
    assert.equal(await one.request(name, { ifAvailable: true }, (lock) => lock), null)
    await pendingOf(one, name, 3)
    assert.deepEqual(order, ['thief'])
    waiting.push(two.request(name, () => order.push('last')))
    await pendingOf(one, name, 4)
    thief.done()
    await thief.settled
    await Promise.all(waiting)
    assert.deepEqual(order, ['thief', 'waiter 0', 'waiter 1', 'waiter 2', 'last'])
    held.done()
  })

  clause(
    '4.1 Request a lock, steal: a thief is stolen from, and those who wait still wait',
    async (brief) => {
      const [one, two] = brief()
      const name = fresh()
      const first = await hold(one, name)
      first.settled.catch(() => undefined)
      let waited = false
      const waiting = two.request(name, () => {
        waited = true
      })
      await pendingOf(one, name, 1)
      const thief = await hold(two, name, { steal: true })
      await assert.rejects(first.settled, named('AbortError'))
      await pendingOf(one, name, 1)
      const second = await hold(one, name, { steal: true })
      await assert.rejects(thief.settled, named('AbortError'))
      assert.equal(waited, false)
      assert.equal((await states(one, name)).pending.length, 1)
      second.done()
      await Promise.all([second.settled, waiting])
      assert.equal(waited, true)
      for (const { done } of [first, thief]) done()
    },
  )

  clause('4.2 Release the lock: the next in the queue is called back', async () => {
    const name = fresh()
    const held = await hold(one, name)
    const next = [two.request(name, { mode: 'shared' }, () => 'a'), one.request(name, () => 'b')]
    await pendingOf(one, name, 2)
    held.fail(new Error('mine'))
    await assert.rejects(held.settled, /mine/)
    assert.deepEqual(await Promise.all(next), ['a', 'b'])
  })
}
