// The next token for a holder inside the process, of stores with sessions: nobody has one that comes after the grant was released.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createLocks } from 'holdfast'
import { consul } from 'holdfast/consul'
import { etcd } from 'holdfast/etcd'
import { systemEnv } from '../../../../src/core/engine.js'
import { leakCheck } from '../../../support/leaks.js'
import { startProxy } from '../../../support/proxy.js'
import { startConsul } from '../../../support/servers/consul.js'
import { startEtcd } from '../../../support/servers/etcd.js'
import { once } from '../../support/asking.js'
import { claim } from '../../support/session-store.js'

const [onEtcd, onConsul] = await Promise.all([startEtcd(), startConsul()])
after(() => Promise.all([onEtcd.stop(), onConsul.stop()]))

const patient = { requestTimeout: 30_000 }
const stores = [
  { name: 'etcd', server: onEtcd, at: (address: string) => etcd({ endpoints: address, ...patient }) },
  { name: 'consul', server: onConsul, at: (address: string) => consul({ url: address, ...patient }) },
]

for (const { name, server, at } of stores) {
  test(`${name}: a token whose reply comes after the release is nobody's, and guards nothing`, async (t) => {
    const cable = await startProxy(server)
    const store = at(`127.0.0.1:${cable.port}`)
    const driver = store(systemEnv())
    const other = createLocks(at(server.url))
    t.after(async () => {
      await Promise.all([driver.close(), other.close()])
      await cable.stop()
    })
    const grant = await driver.acquire(claim('late'), once())
    let replies = 0
    cable.down.hold(() => ++replies === 1)
    const minting = grant?.nextToken?.()
    await cable.down.holding()
    const minted = (await other.inspect('late')).lastToken
    assert.ok(grant && minted > grant.token, 'it was carried out')
    assert.equal(await grant.release(), 'released')
    cable.down.pass()
    assert.equal(await minting, undefined)
    for (const token of [grant.token, minted])
      assert.throws(() => store.guard({ name: 'late', token }), { code: 'STALE_TOKEN' })
  })
}

after(leakCheck)
