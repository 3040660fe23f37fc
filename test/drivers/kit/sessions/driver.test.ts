// Questions that only read, of stores with sessions: passing trouble does not end them.
import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import type { Clock } from '../../../../src/core/clock.js'
import type { Driver } from '../../../../src/core/driver.js'
import { fakeClock } from '../../../support/fake-clock.js'
import { leakCheck } from '../../../support/leaks.js'
import type { TcpProxy } from '../../../support/proxy.js'
import { startConsul } from '../../../support/servers/consul.js'
import { startEtcd } from '../../../support/servers/etcd.js'
import { until } from '../../../support/until.js'
import * as onConsul from '../../consul/support/scene.js'
import * as onEtcd from '../../etcd/support/scene.js'
import { once } from '../../support/asking.js'
import { asked } from '../../support/http-requests.js'
import { claim } from '../../support/session-store.js'

const [etcd, consul] = await Promise.all([startEtcd(), startConsul()])
after(() => Promise.all([etcd.stop(), consul.stop()]))

interface Store {
  readonly name: string
  direct(t: TestContext): Driver
  cabled(t: TestContext, clock?: Clock): Promise<{ readonly driver: Driver; readonly cable: TcpProxy }>
}

const stores: readonly Store[] = [
  {
    name: 'etcd',
    direct: (t) => onEtcd.driverOf(t, etcd.url),
    cabled: (t, clock) => onEtcd.cabled(t, etcd, {}, clock),
  },
  {
    name: 'consul',
    direct: (t) => onConsul.driverOf(t, consul.url),
    cabled: (t, clock) => onConsul.cabled(t, consul, {}, clock),
  },
]

for (const { name, direct, cabled } of stores) {
  test(`${name}: who holds is asked again while the store cannot be reached`, async (t) => {
    const grant = await direct(t).acquire(claim('look'), once())
    const { driver, cable } = await cabled(t)
    cable.refuse()
    await asked(async (paths) => {
      const looking = driver.inspect('look')
      // The third question shows that two were refused.
      await until(() => paths.length > 2)
      await cable.accept()
      const { holders } = await looking
      assert.deepEqual(
        holders.map(({ token }) => token),
        [grant?.token],
      )
    })
    assert.equal(await grant?.release(), 'released')
  })

  test(`${name}: a store that stays away is an error, and so is closing meanwhile`, async (t) => {
    const clock = fakeClock()
    const { driver, cable } = await cabled(t, clock)
    cable.refuse()
    let over = false
    const refused = assert.rejects(driver.inspect('look'), { code: 'BACKEND' }).then(() => {
      over = true
    })
    await until(async () => {
      await clock.advance(500)
      return over
    })
    await refused
    const closed = assert.rejects(driver.list?.('') ?? Promise.resolve(), /were closed/)
    await driver.close()
    await closed
  })
}

after(leakCheck)
