// Processes that run different versions of Node meet at one broker.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { brokerOf, endAll, freshDirectory, start } from '../drivers/local/processes.js'
import { leakCheck } from '../support/leaks.js'
import { unpacked } from '../support/servers/fetch.js'
import { until } from '../support/until.js'

const other = join((await unpacked('node24')).root, 'bin/node')

for (const [first, second] of [
  [process.execPath, other],
  [other, process.execPath],
] as const) {
  test(`two versions of Node have one broker, ${first === other ? 'Node 24' : 'this one'} first`, async () => {
    const directory = freshDirectory()
    const [one, two] = [
      await start({ directory }, { node: first }),
      await start({ directory }, { node: second }),
    ]
    const held = await one.acquire('x')
    assert.equal(await two.tryAcquire('x'), undefined, 'both hold')
    assert.equal(brokerOf(directory), one.pid)
    const next = two.acquire('x')
    await until(async () => (await one.waiters('x')) === 1)
    await one.release(held)
    assert.ok((await next).token > held.token)
  })
}

after(async () => {
  await endAll()
  await leakCheck()
})
