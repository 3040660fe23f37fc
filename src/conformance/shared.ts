import assert from 'node:assert/strict'
import type { Fixture } from './fixture.js'
import type { It } from './suite.js'
import { pause } from './test-context.js'

export function shared(it: It, { traits }: Fixture): void {
  if (!traits.modes.includes('shared')) {
    it('are refused when they are made', async (context) => {
      const { locks } = context.client()
      assert.throws(() => locks.readWrite(context.name()), { code: 'UNSUPPORTED' })
    })
    return
  }

  it('let readers in together, over clients and inside one', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    const readers = await Promise.all(
      [a, b, a].map((client) => client.locks.readWrite(name).read.acquire({ wait: context.timeout })),
    )
    assert.ok(readers.every((lease) => lease.isHeld))
    for (const lease of readers) await lease.release()
  })

  it('let a writer in only when the last reader has left', async (context) => {
    const [a, b, c] = [context.client(), context.client(), context.client()]
    const name = context.name()
    const readers = [
      await a.locks.readWrite(name).read.acquire(),
      await b.locks.readWrite(name).read.acquire(),
    ]
    let written = false
    const writer = c.locks
      .readWrite(name)
      .write.acquire()
      .finally(() => {
        written = true
      })
    await context.queued(a, name, 1)
    await readers[0]?.release()
    await pause(20)
    assert.equal(written, false)
    assert.equal(await b.locks.readWrite(name).write.tryAcquire(), undefined)
    await readers[1]?.release()
    await (await context.settlesInTime('the writer', writer)).release()
  })

  it('let all waiting readers in when the writer leaves', async (context) => {
    const [a, b, c] = [context.client(), context.client(), context.client()]
    const name = context.name()
    await context.connected(b)
    const writer = await a.locks.readWrite(name).write.acquire()
    assert.equal(await b.locks.readWrite(name).read.tryAcquire(), undefined)
    let inside = 0
    let most = 0
    const readers = [b, c].map((client) =>
      client.locks.readWrite(name).read.run(async () => {
        most = Math.max(most, ++inside)
        await context.until('both readers to be in', () => most === 2)
        inside--
      }),
    )
    await context.queued(a, name, 2)
    await writer.release()
    await context.settlesInTime('both readers', Promise.all(readers))
    assert.equal(most, 2)
  })

  it('do not starve a writer while readers keep coming', async (context) => {
    const clients = [context.client(), context.client(), context.client()]
    const name = context.name()
    let go = true
    const read = async (client: (typeof clients)[number], offset: number) => {
      await pause(offset)
      while (go) await client.locks.readWrite(name).read.run(() => pause(15))
    }
    const readers = clients.flatMap((client, i) => [read(client, i * 5), read(client, i * 5 + 8)])
    context.cleanup(async () => {
      go = false
      await Promise.all(readers)
    })
    await pause(30)
    const writer = await context.client().locks.readWrite(name).write.acquire({ wait: context.timeout })
    await writer.release()
  })

  it('become a reader from a writer with no other writer in between', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    const { read, write } = a.locks.readWrite(name)
    const writer = await write.acquire()
    const order: string[] = []
    const second = b.locks.readWrite(name).write.run(() => void order.push('second writer'))
    await context.queued(a, name, 1)
    const reader = await read.acquire({ reentrant: writer })
    assert.equal(await writer.release(), 'released')
    assert.equal(reader.isHeld, true)
    await pause(20)
    order.push('reader leaves')
    await reader.release()
    await context.settlesInTime('the second writer', second)
    assert.deepEqual(order, ['reader leaves', 'second writer'])
  })

  it('let other readers in beside a writer that became a reader', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    const writer = await a.locks.readWrite(name).write.acquire()
    const reader = await a.locks.readWrite(name).read.acquire({ reentrant: writer })
    await writer.release()
    const other = await b.locks.readWrite(name).read.acquire({ wait: context.timeout })
    assert.equal(reader.isHeld && other.isHeld, true)
    assert.equal(await b.locks.readWrite(name).write.tryAcquire(), undefined)
    await reader.release()
    await other.release()
  })
}
