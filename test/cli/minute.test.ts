// With all options at their defaults, a command of a minute on a healthy store is never disturbed: renewals, heartbeats and anything else that only
// happens after a while. All stores side by side, because the minute costs no processor.
// Second tier because it takes longer than a minute.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { leakCheck } from '../support/leaks.js'
import { bench, besidesSilence } from './support/cli.js'
import { type StoreName, stores } from './support/stores.js'

const minute = 'sleep 60 & echo $!; wait $!; echo "code $?"'

describe('a command of a minute', { concurrency: true }, () => {
  for (const name of Object.keys(stores) as StoreName[])
    test(name, async () => {
      const store = await stores[name]()
      const { cli, close } = bench(store.url)
      try {
        const { code, stdout, stderr } = await cli('run', 'minute', '--', 'sh', '-c', minute)
        assert.deepEqual([code, besidesSilence(stderr)], [0, ''])
        assert.match(stdout, /^\d+\ncode 0\n$/)
      } finally {
        close()
        await store.stop()
      }
    })
})

after(leakCheck)
