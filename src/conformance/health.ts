import assert from 'node:assert/strict'
import { BackendError } from 'holdfast'
import type { Fixture } from './fixture.js'
import type { It } from './suite.js'

export function health(it: It, { faults }: Fixture): void {
  it('says that a store which is well can grant, to several at once, and holds nothing after', async (stage) => {
    const [a, b] = [stage.client(), stage.client()]
    const told = await Promise.all([a, a, b, b].map(({ locks }) => locks.health({ timeout: stage.timeout })))
    for (const one of told) {
      assert.deepEqual(one, { ...one, status: 'ok', ok: true, held: 0, doubtful: 0, waiting: 0 })
      assert.equal(one.driver, a.driver.name)
      assert.ok(one.took >= 0 && one.took <= stage.timeout, `took ${one.took} ms`)
      assert.equal(one.error, undefined)
    }
    await stage.until('nobody to hold the probe', async () => {
      const { holders, waiters } = await a.locks.inspect('holdfast:health')
      return holders.length + waiters.length === 0
    })
  })

  it('counts what this client holds and waits for', async (stage) => {
    const [a, b] = [stage.client(), stage.client()]
    const name = stage.name()
    const lease = await a.locks.mutex(name).acquire()
    const waiting = b.locks.mutex(name).acquire()
    const [ours, theirs] = await Promise.all(
      [a, b].map(({ locks }) => locks.health({ timeout: stage.timeout })),
    )
    assert.deepEqual([ours?.held, ours?.waiting, theirs?.held, theirs?.waiting], [1, 0, 0, 1])
    await lease.release()
    await (await waiting).release()
  })

  it('says that a client without its store can be granted nothing, in time, and counts its doubtful leases', async (stage) => {
    const client = stage.client()
    const lease = await client.locks.mutex(stage.name()).acquire({ ttl: stage.ttl })
    await stage.cut(client)
    await stage.until(
      'a doubtful lease',
      () => lease.state === 'doubtful' || lease.state === 'lost',
      stage.ttl,
    )
    const begin = performance.now()
    const told = await client.locks.health({ timeout: 200 })
    const took = performance.now() - begin
    assert.deepEqual([told.ok, told.status], [false, 'unavailable'])
    assert.ok(told.error instanceof BackendError, String(told.error))
    assert.ok(took < 200 + stage.timeout, `took ${took} ms`)
    assert.equal(told.doubtful, lease.state === 'doubtful' ? 1 : 0)
    await assert.rejects(client.locks.ping({ timeout: 200 }), BackendError)
    await stage.heal()
    await stage.until('the store to grant again', async () => (await client.locks.health()).ok)
  })

  it('pings the store', async (stage) => {
    const { locks } = stage.client()
    const took = await locks.ping({ timeout: stage.timeout })
    assert.ok(took >= 0 && took <= stage.timeout, `took ${took} ms`)
  })

  it('of closed locks is no error, a ping is one', async (stage) => {
    const { locks } = stage.client()
    await locks.close()
    const told = await locks.health()
    assert.deepEqual([told.ok, told.status, told.error?.code], [false, 'closed', 'CLOSED'])
    await assert.rejects(locks.ping(), { code: 'CLOSED' })
  })

  const { stop } = faults
  if (stop === undefined) return

  it('of a store that is down says so, and that it is back', async (stage) => {
    const { locks } = stage.client()
    assert.equal((await locks.health({ timeout: stage.timeout })).ok, true)
    await stop()
    const told = await stage.settlesInTime('the answer', locks.health({ timeout: 300 }), 300 + stage.timeout)
    assert.deepEqual([told.ok, told.status], [false, 'unavailable'])
    await stage.heal()
    await stage.until('the store to grant again', async () => (await locks.health()).ok)
  })
}
