import assert from 'node:assert/strict'
import { acquireInChild } from './child-process.js'
import type { Client } from './client.js'
import type { Fixture } from './fixture.js'
import type { It } from './suite.js'
import { expiredWait, notYet, type TestContext } from './test-context.js'

const kinds = {
  'upgrades with no other writer in between, however many try': async (context, a) => {
    const clients = [a, context.client(), context.client()]
    const name = context.name()
    let value = 0
    const add = async ({ locks }: Client) => {
      const lease = await locks.upgradeable(name).upgradeable()
      const seen = value
      await new Promise(setImmediate)
      assert.equal(await lease.upgrade(), true)
      assert.equal(value, seen, 'somebody has written between reading and writing')
      lease.assertHeld()
      value = seen + 1
      await lease.release()
    }
    const write = ({ locks }: Client) =>
      locks.upgradeable(name).write.run(async () => {
        const seen = value
        await new Promise(setImmediate)
        value = seen + 1
      })
    await Promise.all(clients.flatMap((client) => [add(client), write(client), add(client)]))
    assert.equal(value, 9)
  },

  'shares with readers, and waits for them before it writes': async (context, a) => {
    const [b, name] = [context.client(), context.name()]
    const reader = await b.locks.upgradeable(name).read.acquire()
    const lease = await a.locks.upgradeable(name).upgradeable()
    const mode = () => lease.mode
    assert.equal(mode(), 'read')
    assert.equal(await notYet(lease.upgrade({ wait: 50 })), false)
    assert.equal(mode(), 'read')
    lease.assertHeld()
    const second = await b.locks.upgradeable(name).read.acquire({ wait: context.timeout })
    await second.release()
    const { token } = lease
    const upgraded = lease.upgrade()
    await context.queued(b, name, 1)
    await reader.release()
    assert.equal(await context.settlesInTime('it to write', upgraded), true)
    assert.equal(mode(), 'write')
    assert.ok(lease.token >= token)
    assert.equal(await b.locks.upgradeable(name).read.tryAcquire(), undefined)
    await lease.downgrade()
    assert.equal(mode(), 'read')
    await (await b.locks.upgradeable(name).read.acquire({ wait: context.timeout })).release()
    assert.equal(await b.locks.upgradeable(name).write.tryAcquire(), undefined, 'no writer yet')
    assert.equal(await lease.release(), 'released')
    await (await b.locks.upgradeable(name).write.acquire({ wait: context.timeout })).release()
  },

  'ends with its lease: what was released or lost cannot be upgraded': async (context, a) => {
    const b = context.client()
    const [name, other] = [context.name(), context.name()]
    const released = await a.locks.upgradeable(name).upgradeable()
    assert.equal(await released.upgrade(), true)
    assert.equal(await released.release(), 'released')
    await assert.rejects(released.upgrade(), { code: 'LEASE_LOST' })
    await assert.rejects(released.downgrade(), { code: 'LEASE_LOST' })
    const lost = await a.locks.upgradeable(other).upgradeable({ ttl: context.ttl, autoRenew: false })
    assert.equal(await lost.upgrade(), true)
    await context.until('the loss', () => !lost.isHeld, context.ttl + context.timeout)
    await assert.rejects(lost.upgrade(), { code: 'LEASE_LOST' })
    await assert.rejects(lost.downgrade(), { code: 'LEASE_LOST' })
    await lost.release()
    const reader = await b.locks.upgradeable(name).read.acquire({ wait: context.timeout })
    const waits = await a.locks.upgradeable(name).upgradeable()
    const upgraded = waits.upgrade()
    await context.queued(b, name, 1)
    assert.equal(waits.state, 'held', 'it goes on reading')
    assert.equal(await waits.release(), 'released')
    await assert.rejects(context.settlesInTime('the wait to end', upgraded), { code: 'LEASE_LOST' })
    assert.equal(waits.state, 'released')
    await reader.release()
  },

  'is for one at a time, so that two never wait for each other': async (context, a) => {
    const [b, name] = [context.client(), context.name()]
    const one = await a.locks.upgradeable(name).upgradeable()
    await assert.rejects(b.locks.upgradeable(name).upgradeable({ wait: 50 }), expiredWait)
    const two = b.locks.upgradeable(name).upgradeable({ wait: Number.POSITIVE_INFINITY })
    assert.equal(await context.settlesInTime('the first to write', one.upgrade()), true)
    await one.release()
    const lease = await context.settlesInTime('the second', two)
    assert.ok(lease.token > one.token)
    await lease.release()
  },

  'is lost like any other lease': async (context, a) => {
    const [b, name] = [context.client(), context.name()]
    const lease = await a.locks.upgradeable(name).upgradeable({ ttl: context.ttl })
    const { signal } = lease
    await context.cut(a)
    const wait = 2 * context.ttl + context.timeout
    const next = await b.locks.upgradeable(name).write.acquire({ wait })
    assert.equal(lease.isHeld, false)
    assert.throws(() => lease.assertHeld(), { code: 'LEASE_LOST' })
    await context.until('the signal', () => signal.aborted)
    await context.heal()
    await assert.rejects(lease.upgrade(), { code: 'LEASE_LOST' })
    await next.release()
  },
} satisfies Record<string, (context: TestContext, client: Client) => Promise<void>>

export function upgrades(it: It, { traits, childClient }: Fixture): void {
  if (!traits.modes.includes('shared')) {
    it('is refused when it is made', async (context) => {
      const { locks } = context.client()
      assert.throws(() => locks.upgradeable(context.name()), { code: 'UNSUPPORTED' })
    })
    return
  }
  for (const [name, test] of Object.entries(kinds)) it(name, (context) => test(context, context.client()))
  if (!traits.shared || childClient === undefined) return

  it('and writing end with a process that is killed with -9', async (context) => {
    const client = context.client()
    const { locks } = client
    const name = context.name()
    const child = acquireInChild(context, childClient, name, context.lasting, 'upgradeable')
    await context.connected(client)
    const { token } = await child.received('granted')
    assert.equal(await locks.upgradeable(name).read.tryAcquire(), undefined)
    await child.kill()
    const lease = await locks.upgradeable(name).write.acquire({ wait: 2 * context.lasting + context.timeout })
    assert.ok(lease.token > token)
    await lease.release()
  })
}
