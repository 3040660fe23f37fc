import assert from 'node:assert/strict'
import { BackendError } from 'holdfast'
import type { Fixture } from './fixture.js'
import type { It } from './suite.js'

export function health(it: It, { faults }: Fixture): void {
  it('says that a store which is well can grant, to several at once, and holds nothing after', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const reports = await Promise.all(
      [a, a, b, b].map(({ locks }) => locks.health({ timeout: context.timeout })),
    )
    for (const one of reports) {
      assert.deepEqual(one, { ...one, status: 'ok', ok: true, held: 0, doubtful: 0, waiting: 0 })
      assert.equal(one.driver, a.driver.name)
      assert.ok(one.took >= 0 && one.took <= context.timeout, `took ${one.took} ms`)
      assert.equal(one.error, undefined)
    }
    await context.until('nobody to hold the probe', async () => {
      const { holders, waiters } = await a.locks.inspect('holdfast:health')
      return holders.length + waiters.length === 0
    })
  })

  it('counts what this client holds and waits for', async (context) => {
    const [a, b] = [context.client(), context.client()]
    const name = context.name()
    const lease = await a.locks.mutex(name).acquire()
    const waiting = b.locks.mutex(name).acquire()
    const [ours, theirs] = await Promise.all(
      [a, b].map(({ locks }) => locks.health({ timeout: context.timeout })),
    )
    assert.deepEqual([ours?.held, ours?.waiting, theirs?.held, theirs?.waiting], [1, 0, 0, 1])
    await lease.release()
    await (await waiting).release()
  })

  it('says that a client without its store can be granted nothing, in time, and counts its doubtful leases', async (context) => {
    const client = context.client()
    const lease = await client.locks.mutex(context.name()).acquire({ ttl: context.ttl })
    await context.cut(client)
    await context.until(
      'a doubtful lease',
      () => lease.state === 'doubtful' || lease.state === 'lost',
      context.ttl,
    )
    const begin = performance.now()
    const reports = await client.locks.health({ timeout: 200 })
    const took = performance.now() - begin
    assert.deepEqual([reports.ok, reports.status], [false, 'unavailable'])
    assert.ok(reports.error instanceof BackendError, String(reports.error))
    assert.ok(took < 200 + context.timeout, `took ${took} ms`)
    assert.equal(reports.doubtful, lease.state === 'doubtful' ? 1 : 0)
    await assert.rejects(client.locks.ping({ timeout: 200 }), BackendError)
    await context.heal()
    await context.until('the store to grant again', async () => (await client.locks.health()).ok)
  })

  it('pings the store', async (context) => {
    const { locks } = context.client()
    const took = await locks.ping({ timeout: context.timeout })
    assert.ok(took >= 0 && took <= context.timeout, `took ${took} ms`)
  })

  it('of closed locks is no error, a ping is one', async (context) => {
    const { locks } = context.client()
    await locks.close()
    const reports = await locks.health()
    assert.deepEqual([reports.ok, reports.status, reports.error?.code], [false, 'closed', 'CLOSED'])
    await assert.rejects(locks.ping(), { code: 'CLOSED' })
  })

  const { stop } = faults
  if (stop === undefined) return

  it('of a store that is down says so, and that it is back', async (context) => {
    const { locks } = context.client()
    assert.equal((await locks.health({ timeout: context.timeout })).ok, true)
    await stop()
    const reports = await context.settlesInTime(
      'the answer',
      locks.health({ timeout: 300 }),
      300 + context.timeout,
    )
    assert.deepEqual([reports.ok, reports.status], [false, 'unavailable'])
    await context.heal()
    await context.until('the store to grant again', async () => (await locks.health()).ok)
  })
}
