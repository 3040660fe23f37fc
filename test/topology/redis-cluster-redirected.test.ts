// An ioredis Cluster loses a connection just after it sent ASKING over it, while a slot is being moved: the process keeps running.
// Second tier because Cluster is a topology of its own, and a change seldom concerns it alone.
import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { after, test } from 'node:test'
import type { RedirectedTask } from '../drivers/redis/support/redirected-child.js'
import { versions } from '../drivers/redis/support/versions.js'
import { leakCheck } from '../support/leaks.js'
import { startProxy } from '../support/proxy.js'
import { startCluster } from '../support/servers/redis-cluster.js'

const cluster = await startCluster()
after(() => cluster.stop())

for (const { name: version } of versions.filter(({ library }) => library === 'ioredis'))
  test(`a connection that breaks while a slot is moved ends no process, and the lock is granted (${version})`, async () => {
    const name = `redirected ${version}`
    const slot = await cluster.keySlot(`hf:{${name}}`)
    const from = await cluster.findOwner(slot)
    const to = cluster.masters.find((node) => node !== from)
    assert.ok(to)
    const migration = await cluster.beginMigration(slot, to)
    await using proxy = await startProxy({ port: to.port })
    proxy.up.hold('asking')
    const natMap = { [`${to.host}:${to.port}`]: { host: proxy.host, port: proxy.port } }
    const task: RedirectedTask = { version, port: from.port, natMap, name }
    const child = fork(
      new URL('../drivers/redis/support/redirected-child.js', import.meta.url),
      [JSON.stringify(task)],
      { execArgv: [], stdio: ['ignore', 'inherit', 'pipe', 'ipc'] },
    )
    let said = ''
    child.stderr?.on('data', (text) => {
      said += text
    })
    let released: unknown
    child.once('message', (how) => {
      released = how
    })
    const closed = once(child, 'close')
    await proxy.up.holding()
    proxy.reset()
    proxy.up.pass()
    // A new name needs keys that neither node may create before.
    await migration.finish()
    const [code] = await closed
    assert.deepEqual({ code, released, said }, { code: 0, released: 'released', said: '' })
  })

after(leakCheck)
