// A list of locks while a part of the Cluster is unreachable: never "nothing".
// Second tier because Cluster is a topology of its own, and a change seldom concerns it alone.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createLocks } from '../../src/create-locks.js'
import { redis } from '../../src/drivers/redis/index.js'
import { bench } from '../cli/support/cli.js'
import type { Place } from '../drivers/redis/support/place.js'
import { versions } from '../drivers/redis/support/versions.js'
import { leakCheck } from '../support/leaks.js'
import { startCluster } from '../support/servers/redis-cluster.js'
import { until } from '../support/until.js'

const cluster = await startCluster()
after(() => cluster.stop())
const place: Place = { is: 'cluster', ports: cluster.nodes.map(({ port }) => port) }
const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']

for (const version of versions) {
  test(`a list is complete or an error: at the first moment, in a reshard, without a node (${version.name})`, async (t) => {
    const { client, start, close } = await version.open(place)
    const locks = createLocks(redis({ client, commandTimeout: 1_000, quarantine: 'off' }))
    t.after(() => locks.close().then(close))
    const wanted = names.map((name) => `${version.name} ${name}`)
    const listed = async () => (await locks.list(version.name)).map(({ name }) => name)

    const starting = start()
    const early = await listed().then(
      (found) => found,
      (error: Error) => error,
    )
    await starting
    for (const name of wanted) await locks.mutex(name).acquire({ ttl: 30_000 })
    assert.deepEqual(await listed(), wanted)
    if (!(early instanceof Error)) assert.deepEqual(early, [])

    const moved = `hf:{${wanted[0]}}`
    const slot = await cluster.keySlot(moved)
    const owner = await cluster.findOwner(slot)
    const target = cluster.masters.find((node) => node !== owner)
    assert.ok(target)
    const migration = await cluster.beginMigration(slot, target)
    const shown = listed().catch((error: Error) => error)
    await migration.moveKeys()
    await migration.finish()
    const during = await shown
    if (!(during instanceof Error)) assert.deepEqual(during, wanted)
    assert.deepEqual(await listed(), wanted)

    const gone = await cluster.findOwner(await cluster.keySlot(`hf:{${wanted[1]}}`))
    gone.pause()
    try {
      await assert.rejects(
        listed(),
        /^BackendError: redis: (cannot list|(gave )?no answer|the server refused \(CLUSTERDOWN\))/,
      )
    } finally {
      gone.resume()
    }
    await until(async () => (await listed().catch(() => [])).length === wanted.length, { within: 20_000 })
    await gone.kill9()
    await assert.rejects(listed(), /^BackendError: /)
    await gone.restart()
    // The others take their time to believe in it again.
    const released = (name: string) =>
      locks.forceRelease(name).then(
        () => true,
        () => false,
      )
    for (const name of wanted) await until(() => released(name), { within: 20_000 })
    assert.deepEqual(await listed(), [])
  })
}

test('`holdfast ls` says that a node is silent or gone, and ends with 69, never with "no lock is held"', async (t) => {
  const own = await startCluster()
  t.after(() => own.stop())
  const b = bench(`redis+cluster://${own.addresses.map(({ host, port }) => `${host}:${port}`).join(',')}`)
  t.after(() => b.close())
  const free = await b.cli('ls')
  assert.deepEqual([free.code, free.stdout.trim()], [0, 'no lock is held or waited for'], free.stderr)
  for (const harm of ['pause', 'kill9'] as const) {
    await own.masters[1]?.[harm]()
    const { code, stdout, stderr } = await b.cli('ls')
    assert.deepEqual([code, stdout], [69, ''], harm)
    assert.match(stderr, /^holdfast: redis: .+\n$/, harm)
  }
})

after(leakCheck)
