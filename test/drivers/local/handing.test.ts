// A lease that has moved belongs to its new process, also for a broker that comes later.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createLocks } from 'holdfast'
import { local } from 'holdfast/local'
import { leakCheck } from '../../support/leaks.js'
import { until } from '../../support/until.js'
import { brokerOf, endAll, freshDirectory, start } from './processes.js'

test('a lease that was adopted outlives the broker and the one who took it', async () => {
  const options = { directory: freshDirectory() }
  const broker = await start(options)
  await broker.acquire('who-runs-the-broker')
  const [one, two, other] = [createLocks(local(options)), createLocks(local(options)), await start(options)]
  const lease = await one.mutex('x').acquire()
  const adopted = await two.adopt(await one.export(lease))
  assert.equal(adopted.token, lease.token)
  await broker.kill()
  await until(() => brokerOf(options.directory) !== broker.pid)
  await one.close()
  assert.equal(await other.tryAcquire('x'), undefined)
  assert.ok((await adopted.extend()) > 0)
  assert.equal(await adopted.release(), 'released')
  assert.ok(((await other.tryAcquire('x')) ?? 0) > lease.token)
  await two.close()
})

after(endAll)
after(leakCheck)
