// Replies garbled in transit: an error, never a grant.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { locksOf } from '../drivers/consul/support/scene.js'
import { garbled, startGarbling } from '../drivers/support/garbling.js'
import { waitsInVain } from '../drivers/support/in-vain.js'
import { leakCheck } from '../support/leaks.js'
import { startConsul } from '../support/servers/consul.js'
import { until } from '../support/until.js'

for (const [what, make] of Object.entries(garbled)) {
  test(`a reply of which ${what} is left is not a grant, and the lock is granted once replies are complete`, async (t) => {
    await using server = await startConsul()
    const between = await startGarbling(server.url)
    t.after(() => between.stop())
    const { locks } = locksOf(t, between.url)
    const direct = locksOf(t, server.url).locks
    await locks.mutex('warm').run(() => undefined)
    between.garble((path, text) => (path.includes('/txn') ? make(text) : text))
    await waitsInVain(locks, locks.mutex('a'), /garbled/)
    between.garble((_path, text) => text)
    const lease = await locks.mutex('a').acquire({ wait: 30_000 })
    assert.ok(Number.isSafeInteger(lease.token) && lease.token > 0)
    const { holders } = await direct.inspect('a')
    assert.deepEqual(
      holders.map(({ token }) => token),
      [lease.token],
    )
    assert.equal(await lease.release(), 'released')
  })
}

const forged = {
  'nothing but null': () => 'null',
  'no JSON': () => '[{',
  'an empty list': () => '[]',
  'an object': () => '{}',
  'another key': () => '[{"Key":"x","Value":null,"CreateIndex":1,"ModifyIndex":9007199254740993}]',
  'an entry without anything': () => '[{}]',
}

for (const [what, make] of Object.entries(forged)) {
  test(`a blocking query that brings ${what} makes no holder and ends no wait`, async (t) => {
    await using server = await startConsul()
    const between = await startGarbling(server.url)
    t.after(() => between.stop())
    const { locks } = locksOf(t, between.url)
    const direct = locksOf(t, server.url).locks
    const terms = { ttl: 3_000 }
    const lease = await direct.mutex('a').acquire({ ttl: 600_000 })
    let garbled = 0
    between.garble((path, text) => {
      if (!path.includes('&wait=')) return text
      garbled++
      return make()
    })
    let entered = false
    const asked = locks.mutex('a').acquire(terms)
    void asked.then(() => {
      entered = true
    })
    await until(async () => (await direct.inspect('a')).waiters.length === 1)
    // A change of the lock that leaves it held ends the query.
    await lease.extend(300_000)
    await lease.extend(900_000)
    await until(() => garbled > 0)
    assert.equal(entered, false, 'a second holder')
    assert.deepEqual(
      (await direct.inspect('a')).holders.map(({ token }) => token),
      [lease.token],
    )
    assert.equal(await lease.release(), 'released')
    const next = await asked
    assert.ok(next.token > lease.token)
    assert.equal(await next.release(), 'released')
  })
}

after(leakCheck)
