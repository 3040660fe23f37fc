// A broker over a socket file is stopped while it grants, and the file that names it is deleted: another process is the broker by the time it
// goes on.
import assert from 'node:assert/strict'
import { readFileSync, unlinkSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { leakCheck } from '../../support/leaks.js'
import { awaitStandstill } from '../../support/servers/process.js'
import { until } from '../../support/until.js'
import { endAll, freshDirectory, start } from './processes.js'
import { type Step, variable } from './stopping.js'

const steps: Record<Step, string> = {
  writing: 'before a grant is in the journal',
  written: 'when a grant is in the journal',
  sending: 'when a grant is about to be sent',
}

for (const [step, when] of Object.entries(steps))
  test(`a broker that is stopped ${when}, and overtaken, lets no second holder in`, async () => {
    const options = { directory: freshDirectory(), socket: 'file' } as const
    const broker = await start(options, { preload: './stopping.js', env: { [variable]: step } })
    await broker.acquire('who-runs-the-broker')
    const [client, newcomer] = [await start(options), await start(options)]
    const first = client.acquire('x', { ttl: 60_000 })
    await until(() => / T /.test(readFileSync(`/proc/${broker.pid}/stat`, 'latin1')))
    awaitStandstill(broker.pid)
    unlinkSync(join(options.directory, 'broker-1'))
    const second = newcomer.acquire('x', { ttl: 60_000 })
    // The newcomer is the broker once it has granted this.
    await newcomer.acquire('y')
    const holdsSecond = await Promise.race([second.then(() => true), newcomer.waiters('x').then(() => false)])
    broker.go()
    if (holdsSecond) {
      const held = await second
      const two = await Promise.race([first.then(() => true), client.acquire('z').then(() => false)])
      assert.ok(!two, 'two holders')
      assert.equal(await newcomer.state(held), 'held')
      await newcomer.release(held)
      assert.ok((await first).token > held.token)
    } else {
      const held = await first
      assert.equal(await client.release(held), 'released')
      assert.ok((await second).token > held.token)
    }
  })

after(endAll)
after(leakCheck)
