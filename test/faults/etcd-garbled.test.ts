// Replies garbled in transit: an error, never a grant.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { locksOf } from '../drivers/etcd/support/scene.js'
import { garbled, startGarbling } from '../drivers/support/garbling.js'
import { waitsInVain } from '../drivers/support/in-vain.js'
import { leakCheck } from '../support/leaks.js'
import { startEtcd } from '../support/servers/etcd.js'
import { until } from '../support/until.js'

const more = {
  'a success without its results': (_text: string) =>
    '{"header":{"revision":"5","raft_term":"2"},"succeeded":true}',
}

for (const [what, make] of Object.entries({ ...garbled, ...more })) {
  test(`a reply of which ${what} is left is not a grant, and the lock is granted once replies are complete`, async (t) => {
    await using server = await startEtcd()
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
  'no JSON': () => '{"result":',
  'no event': () => '{"result":{"header":{"revision":"x"},"created":true,"events":7}}',
  'an end of the watch': () => '{"result":{"header":{"revision":"1"},"canceled":true}}',
  'a deletion of what is ahead': (text: string) =>
    `${text}\n{"result":{"header":{"revision":"9007199254740991"},"events":[{"type":"DELETE","kv":{"key":"aGVsZA==","mod_revision":"9"}}]}}`,
}

for (const [what, make] of Object.entries(forged)) {
  test(`a watch that brings ${what} makes no holder and ends no wait`, async (t) => {
    await using server = await startEtcd()
    const between = await startGarbling(server.url)
    t.after(() => between.stop())
    const { locks } = locksOf(t, between.url)
    const direct = locksOf(t, server.url).locks
    const lease = await direct.mutex('a').acquire()
    let garbled = 0
    between.garble((path, text) => {
      if (path !== '/v3/watch') return text
      garbled++
      return make(text)
    })
    let entered = false
    const asked = locks.mutex('a').acquire()
    void asked.then(() => {
      entered = true
    })
    await until(() => garbled > 2 || (what.startsWith('a deletion') && garbled > 0))
    await until(async () => (await direct.inspect('a')).waiters.length === 1)
    assert.equal(entered, false, 'a second holder')
    assert.ok(lease.isHeld)
    assert.equal(await lease.release(), 'released')
    // A heartbeat makes up for a watch that tells nothing.
    const next = await asked
    assert.ok(next.token > lease.token)
    assert.equal((await direct.inspect('a')).holders[0]?.token, next.token)
    assert.equal(await next.release(), 'released')
  })
}

after(leakCheck)
