import assert from 'node:assert/strict'
import type { Fixture } from './fixture.js'
import type { It } from './suite.js'
import { pause } from './test-context.js'

export function operators(it: It, _fixture: Fixture): void {
  it('report holders and waiters, in order, with notes', async (context) => {
    const [a, b, c] = [context.client(), context.client(), context.client()]
    const name = context.name()
    const lease = await a.locks.mutex(name).acquire({ note: 'first', ttl: 30_000 })
    const fair = a.driver.traits.fair
    const waits = []
    for (const [i, client] of [b, c].entries()) {
      waits.push(client.locks.mutex(name).run(() => undefined, { note: `waiter ${i}`, fair }))
      await context.queued(a, name, i + 1)
    }
    await pause(30)
    const standing = await c.locks.inspect(name)
    assert.equal(standing.name, name)
    const [holder, ...others] = standing.holders
    assert.equal(others.length, 0)
    assert.deepEqual(
      { token: holder?.token, note: holder?.note, client: holder?.client },
      { token: lease.token, note: 'first', client: a.env.client },
    )
    assert.equal(holder?.mode.kind, 'exclusive')
    assert.ok(
      (holder?.heldFor ?? 0) >= 20 && (holder?.heldFor ?? 0) < context.timeout * 2,
      `held for ${holder?.heldFor} ms`,
    )
    assert.ok((holder?.expiresIn ?? 0) > 10_000, `expires in ${holder?.expiresIn} ms`)
    const notes = standing.waiters.map((waiter) => waiter.note)
    const { queue = true } = a.driver.traits
    assert.deepEqual(fair ? notes : notes.sort(), queue ? ['waiter 0', 'waiter 1'] : [])
    assert.ok(standing.waiters.every((waiter) => waiter.waitedFor >= 0 && waiter.mode.kind === 'exclusive'))
    await lease.release()
    await Promise.all(waits)
  })

  it('see the note of who holds, not of who held before in the same process', async (context) => {
    const [a, b, name] = [context.client(), context.client(), context.name()]
    const first = await a.locks.mutex(name).acquire({ note: 'order 41' })
    const waiting = [
      { note: 'order 42', next: a.locks.mutex(name).acquire({ note: 'order 42' }) },
      { note: undefined, next: a.locks.mutex(name).acquire() },
    ]
    await first.release()
    for (const { note, next } of waiting) {
      const lease = await context.settlesInTime('the next', next)
      const { holders } = await b.locks.inspect(name)
      assert.deepEqual(
        holders.map((holder) => holder.note),
        [note],
      )
      await lease.release()
    }
  })

  it('tell that a free name is free, also one never used', async (context) => {
    const client = context.client()
    const name = context.name()
    const { holders, waiters } = await client.locks.inspect(name)
    assert.deepEqual({ holders, waiters }, { holders: [], waiters: [] })
    await client.locks.mutex(name).run(() => undefined)
    await context.until(
      'nobody to hold it',
      async () => (await client.locks.inspect(name)).holders.length === 0,
    )
  })

  it('list held and awaited names by prefix, or report that the driver cannot', async (context) => {
    const client = context.client()
    const prefix = context.name('list')
    const names = [`${prefix}:a`, `${prefix}:b\u2028/%.`, `${prefix}`]
    if (client.driver.list === undefined) return assert.rejects(client.locks.list(), { code: 'UNSUPPORTED' })
    const leases = []
    for (const name of names) leases.push(await client.locks.mutex(name).acquire())
    const other = await client.locks.mutex(context.name('other')).acquire()
    const listed = (await client.locks.list(prefix)).map((standing) => standing.name)
    assert.deepEqual(listed.sort(), [...names].sort())
    assert.deepEqual(
      (await client.locks.list(`${prefix}:`)).map((standing) => standing.name).sort(),
      names.slice(0, 2),
    )
    const all = (await client.locks.list()).map((standing) => standing.name)
    assert.ok([...names, other.name].every((name) => all.includes(name)))
    for (const lease of [...leases, other]) await lease.release()
    await context.until('nothing to be listed', async () => (await client.locks.list(prefix)).length === 0)
  })

  it('force a release and notify the holder, or report that the driver cannot', async (context) => {
    const [a, b, c] = [context.client(), context.client(), context.client()]
    const name = context.name()
    if (a.driver.forceRelease === undefined)
      return assert.rejects(a.locks.forceRelease(name), { code: 'UNSUPPORTED' })
    assert.equal(await b.locks.forceRelease(name), 0)
    await context.connected(a, c)
    const lease = await a.locks.mutex(name).acquire({ ttl: context.lasting })
    const next = c.locks.mutex(name).acquire()
    await context.queued(b, name, 1)
    assert.equal(await b.locks.forceRelease(name), 1)
    const second = await context.settlesInTime('the waiter to be granted', next)
    assert.ok(second.token > lease.token)
    await context.until(
      'the old holder to be told',
      () => lease.state === 'lost',
      context.lasting + context.timeout,
    )
    assert.equal(await lease.release(), 'lost')
    await context.assertHeld(a, name)
    assert.equal(await second.release(), 'released')
  })
}
