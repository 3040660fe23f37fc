// A broker over a socket file is stopped while it grants, and the file that names it is deleted: another process is the broker by the time it
// goes on.
// Second tier because each moment takes several processes of its own; local-crash.test.ts is the part for every change.
import assert from 'node:assert/strict'
import { chmodSync, readdirSync, readFileSync, statSync, unlinkSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { leakCheck } from '../../support/leaks.js'
import { awaitStandstill } from '../../support/servers/process.js'
import { until } from '../../support/until.js'
import { endAll, freshDirectory, now, start, type Taker } from './processes.js'
import { type GrantStep, type JournalStep, variable } from './stopping.js'

const steps: Record<GrantStep, string> = {
  writing: 'before a grant is in the journal',
  written: 'when a grant is in the journal',
  sending: 'when a grant is about to be sent',
}

/** It has stopped itself. */
async function stopped({ pid }: Taker): Promise<void> {
  await until(() => / T /.test(readFileSync(`/proc/${pid}/stat`, 'latin1')))
  awaitStandstill(pid)
}

for (const [step, when] of Object.entries(steps))
  test(`a broker that is stopped ${when}, and overtaken, lets no second holder in`, async () => {
    const options = { directory: freshDirectory(), socket: 'file' } as const
    const broker = await start(options, { preload: './stopping.js', env: { [variable]: step } })
    await broker.acquire('who-runs-the-broker')
    const [client, newcomer] = [await start(options), await start(options)]
    const first = client.acquire('x', { ttl: 60_000 })
    await stopped(broker)
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

test('a broker that is overtaken, and cannot restore its directory, sends no grant until it can tell who is the broker', async () => {
  const options = { directory: freshDirectory(), socket: 'file' } as const
  const broker = await start(options, { preload: './stopping.js', env: { [variable]: 'writing' } })
  await broker.acquire('who-runs-the-broker')
  const [client, newcomer] = [await start(options), await start(options)]
  const first = client.acquire('x', { ttl: 60_000 })
  await stopped(broker)
  unlinkSync(join(options.directory, 'broker-1'))
  const held = await newcomer.acquire('x', { ttl: 60_000 })
  // The driver refuses a directory that others may write to.
  chmodSync(options.directory, 0o777)
  broker.go()
  const from = now()
  const two = await Promise.race([first.then(() => true), until(() => now() > from + 500).then(() => false)])
  assert.ok(!two, 'two holders')
  chmodSync(options.directory, 0o700)
  assert.equal(await newcomer.state(held), 'held')
  await newcomer.release(held)
  assert.ok((await first).token > held.token)
})

test('a broker that is stopped, and overtaken by one whose file is deleted as well, does not take over again with what it knew', async () => {
  const options = { directory: freshDirectory(), socket: 'file' } as const
  const file = join(options.directory, 'broker-1')
  const broker = await start(options)
  await broker.acquire('who-runs-the-broker')
  broker.stop()
  unlinkSync(file)
  const next = await start(options)
  const held = await next.acquire('x', { ttl: 60_000 })
  // It cannot see that its file is deleted.
  next.stop()
  unlinkSync(file)
  broker.go()
  // Somebody has published a broker since.
  const newcomer = await start(options)
  await newcomer.acquire('who-runs-it-now')
  assert.ok(readdirSync(options.directory).includes('broker-1'))
  assert.equal(await newcomer.tryAcquire('x'), undefined)
  next.go()
  assert.equal(await next.state(held), 'held')
  assert.equal(await next.release(held), 'released')
  assert.ok(Number(await newcomer.tryAcquire('x')) > held.token)
})

/** How a broker comes to write a whole journal. */
const moments: readonly {
  readonly when: string
  readonly step: JournalStep
  provoke(broker: Taker, directory: string): Promise<void>
}[] = [
  { when: 'begins its journal', step: 'beginning', provoke: async () => undefined },
  {
    when: 'compacts its journal',
    step: 'rewriting',
    async provoke(broker) {
      const note = 'n'.repeat(256)
      const fill = async () => {
        for (;;) await broker.release(await broker.acquire('filler', { note }))
      }
      void fill().catch(() => undefined)
    },
  },
  {
    when: 'publishes itself again',
    step: 'rewriting',
    provoke: async (_, directory) => unlinkSync(join(directory, 'broker-1')),
  },
]

for (const { when, step, provoke } of moments)
  test(`a broker that is stopped while it ${when}, and overtaken, does not overwrite the journal of the next`, async () => {
    const options = { directory: freshDirectory(), socket: 'file' } as const
    const broker = await start(options, { preload: './stopping.js', env: { [variable]: step } })
    const begun = broker.acquire('who-runs-the-broker')
    if (step !== 'beginning') await begun
    await provoke(broker, options.directory)
    await stopped(broker)
    if (readdirSync(options.directory).includes('broker-1')) unlinkSync(join(options.directory, 'broker-1'))
    const [next, holder] = [await start(options), await start(options)]
    await next.acquire('who-runs-the-next')
    const held = await holder.acquire('y', { ttl: 60_000 })
    // Any call would make it look at its journal.
    next.stop()
    broker.go()
    await until(() => !readdirSync(options.directory).some((name) => name.startsWith('journal-')))
    await next.kill()
    assert.equal(await (await start(options)).tryAcquire('y'), undefined)
    assert.equal(await holder.state(held), 'held')
    assert.equal(await holder.release(held), 'released')
  })

test('a broker that is stopped before it removes the files of earlier ones, and overtaken, removes none of the next', async () => {
  const options = { directory: freshDirectory(), socket: 'file' } as const
  const { directory } = options
  const brokerFiles = () => readdirSync(directory).filter((name) => name.startsWith('broker-'))
  const ended = await start(options)
  await ended.acquire('x')
  await ended.kill()
  const broker = await start(options, { preload: './stopping.js', env: { [variable]: 'sweeping' } })
  const begun = broker.acquire('y')
  await stopped(broker)
  for (const name of readdirSync(directory)) if (/^(broker|s)-/.test(name)) unlinkSync(join(directory, name))
  const next = await start(options)
  await next.acquire('who-runs-the-next')
  const files = readdirSync(directory).filter((name) => /^(broker|s)-/.test(name))
  const { ino } = statSync(join(directory, 'broker-1'))
  broker.go()
  // The next broker has granted it.
  await begun
  assert.deepEqual(brokerFiles(), ['broker-1'])
  assert.equal(statSync(join(directory, 'broker-1')).ino, ino)
  assert.ok(files.every((name) => readdirSync(directory).includes(name)))
})

after(endAll)
after(leakCheck)
