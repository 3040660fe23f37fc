// Answers that something between has garbled: an error, never a grant.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { locksOf } from '../drivers/etcd/support/scene.js'
import { garbled, startGarbling } from '../drivers/support/garbling.js'
import { leakCheck } from '../support/leaks.js'
import { startEtcd } from '../support/servers/etcd.js'

const more = {
  'a success without its results': (_text: string) =>
    '{"header":{"revision":"5","raft_term":"2"},"succeeded":true}',
}

for (const [what, make] of Object.entries({ ...garbled, ...more })) {
  test(`an answer of which ${what} is left is no grant, and the lock is had once answers are whole`, async (t) => {
    await using server = await startEtcd()
    const between = await startGarbling(server.url)
    t.after(() => between.stop())
    const { locks } = locksOf(t, between.url)
    const direct = locksOf(t, server.url).locks
    await locks.mutex('warm').run(() => undefined)
    between.garble((path, text) => (path.includes('/txn') ? make(text) : text))
    await assert.rejects(locks.mutex('a').acquire({ wait: 1_000 }), {
      name: 'BackendError',
      message: /garbled/,
    })
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

after(leakCheck)
