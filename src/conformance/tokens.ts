// Long because one promise, that tokens grow, is checked on every way to a grant.
import assert from 'node:assert/strict'
import type { Fixture } from './fixture.js'
import type { It } from './suite.js'

export function tokens(it: It, { traits }: Fixture): void {
  it('grow with every grant of a name, over clients, and are safe integers', async (context) => {
    const clients = [context.client(), context.client(), context.client()]
    const name = context.name()
    const seen: number[] = []
    for (let i = 0; i < 12; i++) {
      const client = clients[i % 3]
      await client?.locks.mutex(name).run((lease) => void seen.push(lease.token))
    }
    assertGrowing(seen)
  })

  it('grow when the lock is handed to a waiter', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    const first = await a.locks.mutex(name).acquire()
    const next = b.locks.mutex(name).acquire()
    await context.queued(a, name, 1)
    await first.release()
    const second = await context.settlesInTime('the waiter to be granted', next)
    assertGrowing([first.token, second.token])
    await second.release()
  })

  it('grow when the lock is passed on inside one process, and after it has gone back to the store', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    const seen: number[] = []
    const note = (lease: { token: number }) => void seen.push(lease.token)
    for (let i = 0; i < 3; i++) {
      await Promise.all(Array.from({ length: 50 }, () => a.locks.mutex(name).run(note)))
      await b.locks.mutex(name).run(note)
    }
    assert.equal(seen.length, 153)
    assertGrowing(seen)
  })

  it('grow while one process passes the lock on and others wait', async (context) => {
    const clients = [context.client(), context.client(), context.client()]
    const [a] = clients
    const name = context.name()
    const seen: number[] = []
    const note = (lease: { token: number }) => void seen.push(lease.token)
    const first = await a?.locks.mutex(name).acquire()
    const runs = clients.flatMap(({ locks }) =>
      Array.from({ length: 12 }, () => locks.mutex(name).run(note, { wait: Number.POSITIVE_INFINITY })),
    )
    for (const client of clients.slice(1)) await context.queued(client, name, 1)
    await first?.release()
    await context.settlesInTime('all to be served', Promise.all(runs))
    assert.equal(seen.length, 36)
    assertGrowing([first?.token ?? 0, ...seen])
  })

  it('grow when a lease has run out', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    const first = await a.locks.mutex(name).acquire({ ttl: context.ttl, autoRenew: false })
    const second = await b.locks.mutex(name).acquire({ wait: 3 * context.ttl + context.timeout })
    assertGrowing([first.token, second.token])
    await second.release()
  })

  it('grow when every client has gone and new ones come', async (context) => {
    const name = context.name()
    const seen: number[] = []
    for (let i = 0; i < 3; i++) {
      const client = context.client()
      await client.locks.mutex(name).run((lease) => void seen.push(lease.token))
      await client.locks.close()
    }
    assertGrowing(seen)
  })

  it('stay the same for as long as a lease is held, renewed, extended and entered again', async (context) => {
    const client = context.client()
    const name = context.name()
    const lock = client.locks.mutex(name)
    const lease = await lock.acquire({ ttl: Math.max(context.ttl, 10_000) })
    const { token } = lease
    await lease.extend()
    const again = await lock.acquire({ reentrant: lease })
    assert.equal(again.token, token)
    assert.equal(lease.holdCount, 2)
    await again.release()
    assert.equal(lease.token, token)
    assert.equal(lease.isHeld, true)
    await lease.release()
  })

  it('are reported by `inspect`, also after the lock was released', async (context) => {
    const client = context.client()
    const name = context.name()
    const lease = await client.locks.mutex(name).acquire()
    const { holders, lastToken } = await client.locks.inspect(name)
    assert.equal(holders[0]?.token, lease.token)
    assert.ok(lastToken >= lease.token)
    await lease.release()
  })

  it('are kept apart by name', async (context) => {
    const client = context.client()
    const one = context.name()
    await client.locks.mutex(one).run(() => undefined)
    const other = await client.locks.mutex(context.name()).acquire()
    assert.ok(Number.isSafeInteger(other.token) && other.token > 0)
    await other.release()
  })

  if (traits.modes.includes('shared')) {
    it('grow over readers and writers, and differ between readers who hold together', async (context) => {
      const [a, b] = [context.client(), context.client()]
      const name = context.name()
      const seen: number[] = []
      for (let i = 0; i < 3; i++) {
        const readers = [
          await a.locks.readWrite(name).read.acquire(),
          await b.locks.readWrite(name).read.acquire(),
        ]
        seen.push(...readers.map((lease) => lease.token))
        for (const lease of readers) await lease.release()
        await b.locks.readWrite(name).write.run((lease) => void seen.push(lease.token))
      }
      assertGrowing(seen)
    })
  }

  if (traits.modes.includes('shared')) {
    it('grow when readers wait while a process passes the lock on from writer to writer', async (context) => {
      const [a, b, c] = [context.client(), context.client(), context.client()]
      const name = context.name()
      const seen: number[] = []
      const note = (lease: { token: number }) => void seen.push(lease.token)
      const first = await a.locks.readWrite(name).write.acquire()
      const reads = [b, c].map(({ locks }) => locks.readWrite(name).read.acquire())
      for (const client of [b, c]) await context.queued(client, name, 1)
      const writes = Array.from({ length: 5 }, () => a.locks.readWrite(name).write.run(note))
      await first.release()
      const readers = await context.settlesInTime('the readers to be served', Promise.all(reads))
      const tokens = readers.map(({ token }) => token)
      assert.equal(new Set(tokens).size, 2, `two readers have one token: ${tokens}`)
      const before = Math.max(first.token, ...seen)
      for (const token of tokens) assert.ok(token > before, `token ${token} came after ${before}`)
      for (const lease of readers) await lease.release()
      await context.settlesInTime('the writers to be served', Promise.all(writes))
      assertGrowing([first.token, ...seen])
    })
  }

  if (traits.modes.includes('shared')) {
    it('grow when a writer comes after a reader that waits while writers pass the lock on', async (context) => {
      const [a, b, c] = [context.client(), context.client(), context.client()]
      const name = context.name()
      const first = await a.locks.readWrite(name).write.acquire()
      const successor = a.locks.readWrite(name).write.acquire()
      const read = b.locks.readWrite(name).read.acquire()
      await context.queued(b, name, 1)
      await first.release()
      // The heir; or the reader, which came first to the store, where no lock is passed on inside a process.
      const next = Promise.race([
        successor.then((second) => ({ second, other: read })),
        read.then((second) => ({ second, other: successor })),
      ])
      const { second, other } = await context.settlesInTime('the next one to be served', next)
      const write = c.locks.readWrite(name).write.acquire()
      await context.queued(c, name, 2)
      const seen = [first.token, second.token]
      const left = [other, write].map(async (turn) => {
        const lease = await turn
        seen.push(lease.token)
        await lease.release()
      })
      await second.release()
      await context.settlesInTime('the other two to be served', Promise.all(left))
      assertGrowing(seen)
    })
  }

  if (traits.modes.includes('permits')) {
    it('grow over the permits of a semaphore', async (context) => {
      const [a, b] = [context.client(), context.client()]
      const name = context.name()
      const leases = []
      for (const client of [a, b, a])
        leases.push(await client.locks.semaphore(name, { permits: 3 }).acquire())
      for (const lease of leases) await lease.release()
      const last = await b.locks.semaphore(name, { permits: 3 }).acquire()
      assertGrowing([...leases, last].map((lease) => lease.token))
      await last.release()
    })
  }

  it('can be checked with the store: it knows that of the holder, and no other', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    const first = await a.locks.mutex(name).acquire()
    assert.equal(await b.locks.check({ name, token: first.token }), true)
    assert.equal(await b.locks.check({ name, token: first.token - 1 }), false)
    await first.release()
    assert.equal(await b.locks.check(first), false)
    const second = await b.locks.mutex(name).acquire()
    assert.equal(await a.locks.check(first), false)
    assert.equal(await a.locks.check(second), true)
    await second.release()
    await assert.rejects(a.locks.check({ name, token: 0 }), { name: 'RangeError' })
  })
}

export function assertGrowing(tokens: readonly number[]): void {
  for (const [i, token] of tokens.entries()) {
    assert.ok(Number.isSafeInteger(token), `${token} is no safe integer`)
    const before = tokens[i - 1]
    if (before !== undefined) assert.ok(token > before, `token ${token} came after ${before}`)
  }
}
