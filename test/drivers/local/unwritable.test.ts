// A broker that cannot write its journal grants nothing: its successor would grant the same again.
import assert from 'node:assert/strict'
import { chmodSync, readFileSync, unlinkSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { createLocks } from 'holdfast'
import { local } from 'holdfast/local'
import { leakCheck } from '../../support/leaks.js'
import { until } from '../../support/until.js'
import { endAll, freshDirectory, now, start } from './processes.js'

for (const socket of ['abstract', 'file'] as const)
  test(`a journal that is gone and cannot be written again: each of many grants at once is refused, over ${socket} sockets`, async () => {
    const options = { directory: freshDirectory(), socket }
    const broker = await start(options)
    await broker.acquire('who-runs-the-broker')
    const locks = createLocks(local(options))
    await locks.mutex('warm').run(async () => {})
    // It has looked at its journal for that, and looks again after 5 ms.
    const from = now()
    await until(() => now() > from + 10)
    unlinkSync(join(options.directory, 'journal'))
    // The driver refuses a directory that others may write to.
    chmodSync(options.directory, 0o777)
    const names = [...'abcdefgh']
    const refused = await Promise.allSettled(names.map((name) => locks.mutex(name).acquire({ ttl: 60_000 })))
    chmodSync(options.directory, 0o700)
    const granted = names.filter((_, i) => refused[i]?.status === 'fulfilled')
    assert.deepEqual(granted, [])
    for (const one of refused)
      assert.match(
        one.status === 'rejected' ? `${one.reason}` : '',
        /nothing is granted: .*written by others/,
      )
    await locks.mutex('i').acquire({ ttl: 60_000 })
    assert.match(readFileSync(join(options.directory, 'journal'), 'utf8'), /"i"/)
    await broker.kill()
    assert.deepEqual([await (await start(options)).tryAcquire('i')], [undefined])
    await locks.close()
  })

after(endAll)
after(leakCheck)
