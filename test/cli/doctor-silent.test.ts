// `doctor` on a store that accepts connections and never replies: within seconds it reports that nothing is known.
// Second tier because it starts every store.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { leakCheck } from '../support/leaks.js'
import { bench } from './support/cli.js'
import { type StoreName, stores } from './support/stores.js'

/** The whole has a time limit of 15 s, and then the cause is looked for. In ms; the rest is for a busy machine. */
const seconds = 30_000

describe('frozen', { concurrency: 3 }, () => {
  for (const [name, start] of Object.entries(stores) as [StoreName, (typeof stores)[StoreName]][]) {
    if (name === 'local' || name.endsWith(' session')) continue
    test(name, async () => {
      const store = await start()
      const { cli, close } = bench(store.url)
      try {
        store.pause?.()
        const begun = performance.now()
        const { code, stdout, stderr } = await cli('doctor')
        const took = performance.now() - begun
        assert.deepEqual([code, stdout], [69, ''], stderr)
        assert.match(stderr, /^holdfast: .+\n$/)
        const [, host = ''] = /:\/\/(?:[^@/]*@)?([^,/?]+)/.exec(store.url) ?? []
        assert.ok(stderr.includes(host), stderr)
        assert.match(stderr, /answers? (to .+ )?within \d+ s/)
        assert.ok(took < seconds, `${Math.round(took)} ms`)
      } finally {
        close()
        await store.stop()
      }
    })
  }
})

after(leakCheck)
