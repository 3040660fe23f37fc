/**
 * Workers of a fleet stand in one fair line in ZooKeeper, beside Curator and kazoo if there are any. Readers share, a writer is alone.
 * Needs ZooKeeper at ZOOKEEPER_URL, such as `zk1:2181,zk2:2181,zk3:2181`.
 */
import assert from 'node:assert/strict'
import { createLocks } from 'holdfast'
import { zookeeper } from 'holdfast/zookeeper'

const servers = process.env['ZOOKEEPER_URL'] ?? '127.0.0.1:2181'
// Three processes, each with a session of its own; here they are one.
const fleet = [1, 2, 3].map(() => createLocks(zookeeper({ servers, chroot: '/shop/locks' })))
const [one, two, three] = fleet
assert.ok(one && two && three)

const tokens: number[] = []
await Promise.all(
  fleet.map((locks) =>
    locks.mutex('catalogue').run((lease) => {
      // The transaction that made the worker's place: whatever is written can carry it, and refuse an older one.
      tokens.push(lease.token)
    }),
  ),
)
assert.deepEqual(
  tokens,
  [...tokens].sort((a, b) => a - b),
)
console.log('three workers, one after the other, with tokens', tokens)

const prices = (locks: typeof one) => locks.readWrite('prices')
const [first, second] = [await prices(one).read.acquire(), await prices(two).read.acquire()]
assert.equal(await prices(three).write.tryAcquire(), undefined)
const writing = prices(three).write.acquire({ wait: 10_000 })
await Promise.all([first.release(), second.release()])
const writer = await writing
console.log('two readers at once, then a writer, with token', writer.token)
await writer.release()
for (const locks of fleet) await locks.close()
