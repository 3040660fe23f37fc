// A store may grant a lease for less than --ttl: a ZooKeeper session. The times of `holdfast run` follow the granted lease.
// Second tier because sessions have to run out.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { leakCheck } from '../support/leaks.js'
import { startZookeeper, type ZookeeperServer } from '../support/servers/zookeeper.js'
import { type Bench, bench } from './support/cli.js'

let server: ZookeeperServer
let on: (query: string) => Bench
const opened: Bench[] = []

before(async () => {
  server = await startZookeeper({ tickTime: 500 })
  on = (query) => {
    const one = bench(`zookeeper://${server.address}?tickTime=500&${query}`)
    opened.push(one)
    return one
  }
})

test('a session shorter than the usual --kill-after runs a command of several seconds to its end', async () => {
  const { code, stdout, stderr } = await on('sessionTimeout=5000').cli(
    ...['run', 'short', '--', 'sh', '-c', 'sleep 6; echo done'],
  )
  assert.deepEqual([code, stdout, stderr], [0, 'done\n', ''])
})

test('a --kill-after that does not fit is refused before the command starts, with numbers and the remedy', async () => {
  const { cli } = on('sessionTimeout=6000')
  const refused = await cli('run', 'asked', '--kill-after', '5s', '--', 'echo', 'ran')
  assert.deepEqual([refused.code, refused.stdout], [64, ''])
  assert.match(
    refused.stderr,
    /^holdfast: --kill-after 5s does not fit into the \S+ for which the store grants a lease: .+ use at most \S+, or a longer session: \?sessionTimeout=… in the URL, in ms\n$/,
  )
  const [, most = ''] = /use at most (\S+),/.exec(refused.stderr) ?? []
  const { code, stdout, stderr } = await cli('run', 'asked', '--kill-after', most, '--', 'echo', 'ran')
  assert.deepEqual([code, stdout, stderr], [0, 'ran\n', ''])
})

after(async () => {
  for (const one of opened) one.close()
  await server.stop()
})
after(leakCheck)
