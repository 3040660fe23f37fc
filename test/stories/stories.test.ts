// Each business story on a real server: what is lost without the lock, with it, and with the guard when the holder was stopped.
// Second tier because it starts several servers for each story.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { cron, skipIfHeld } from '../../examples/stories/cron.js'
import { crowd, openHost, pausedHolder, stories } from '../../examples/stories/run-story.js'
import { leakCheck } from '../support/leaks.js'
import { type MysqlServer, startMysql } from '../support/servers/mysql.js'

describe('business stories on MariaDB', { concurrency: false }, () => {
  let server: MysqlServer
  before(async () => {
    server = await startMysql({ flavour: 'mariadb' })
  })
  after(() => server.stop())

  for (const [name, story] of Object.entries(stories)) {
    test(`${name}: something is lost without the lock`, async () => {
      assert.ok((await crowd(server.url, story, 'bare')) > 0)
    })

    test(`${name}: nothing is lost with the lock`, async () => {
      assert.equal(await crowd(server.url, story, 'locked'), 0)
    })

    test(`${name}: nothing is lost or refused with lock and guard`, async () => {
      assert.equal(await crowd(server.url, story, 'guarded'), 0)
    })

    test(`${name}: the lock alone does not help when its holder was stopped`, async () => {
      const { loss, told } = await pausedHolder(server.url, name, 'locked')
      assert.ok(loss > 0)
      // It is told, but by then it has written.
      assert.equal(told, 'LEASE_LOST')
    })

    test(`${name}: the guard refuses the holder that was stopped`, async () => {
      assert.deepEqual(await pausedHolder(server.url, name, 'guarded'), { loss: 0, told: 'STALE_TOKEN' })
    })
  }

  test('cron on many hosts: trying the lock and skipping is not enough when clocks differ', async () => {
    const hosts = [0, 1, 2].map((i) => openHost(server.url, `host ${i}`))
    const [first] = hosts
    await first!.db.run('drop table if exists runs', [])
    for (const statement of cron.tables) await first!.db.run(statement, [])
    // One after the other, as clocks apart by more than the job takes have it.
    for (const host of hosts) await skipIfHeld(host, 1)
    assert.equal(await cron.loss(first!.db), 2)
    for (const host of hosts) await host.close()
  })
})

after(leakCheck)
