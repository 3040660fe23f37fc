// `verify` where a store keeps the locks of a killed process for longer than anything else here takes: Consul, up to twice the session's ttl.
// Second tier because a session of a dead process takes most of a minute to end.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { leakCheck } from '../support/leaks.js'
import { bench } from './support/cli.js'
import { stores } from './support/stores.js'

/** In the process that draws the faults, each draw kills the first worker. */
const kills = `data:text/javascript,${encodeURIComponent(
  "if (process.argv.includes('verify')) Math.random = () => 0.24",
)}`

test('verify waits for a session that outlives its killed process, and finds nothing wrong', async () => {
  const store = await stores.consul()
  const { script, close } = bench(store.url)
  try {
    const { stdout, stderr } = await script('holdfast verify --only exclusion --minutes 0.01 --json', {
      NODE_OPTIONS: `--import ${kills}`,
    }).ended
    assert.equal(stderr, '')
    const { faults } = JSON.parse(stdout)
    assert.deepEqual(Object.keys(faults.faults), ['kill'])
    assert.deepEqual([faults.violations, faults.complaints], [[], []])
  } finally {
    close()
    await store.stop()
  }
})

after(leakCheck)
