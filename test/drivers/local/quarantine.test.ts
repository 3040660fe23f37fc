// A journal in which a line was damaged: somebody may hold what it does not tell of, so nothing is granted until that has ended.
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { createLocks } from 'holdfast'
import { local } from 'holdfast/local'
import { sinceBoot } from '../../../src/core/clock.js'
import { systemEnv } from '../../../src/core/engine.js'
import { createBroker } from '../../../src/drivers/local/broker.js'
import { openJournal } from '../../../src/drivers/local/journal.js'
import { parseJournal, toLines } from '../../../src/drivers/local/journal-lines.js'
import { thisProcess } from '../../../src/drivers/local/processes.js'
import { fakeClock } from '../../support/fake-clock.js'
import { leakCheck } from '../../support/leaks.js'
import { endAll, freshDirectory, now, start } from './processes.js'

const here = thisProcess()

/** Where one bit is flipped; journal.test.ts flips each. */
const places: Readonly<Record<string, (text: string) => number>> = {
  'the name of what is held': (text) => text.indexOf('["g","x"') + 6,
  'the boot of the header': (text) => text.indexOf(here.boot) + 3,
}

for (const [place, find] of Object.entries(places))
  test(`one flipped bit in ${place} lets no second holder in, nor does the broker after the next`, async () => {
    const directory = freshDirectory()
    const file = join(directory, 'journal')
    const broker = await start({ directory })
    await broker.acquire('who-runs-the-broker')
    const [holder, other] = [await start({ directory }), await start({ directory })]
    const kept = await other.acquire('kept', { ttl: 60_000 })
    await holder.acquire('x', { ttl: 60_000 })
    await broker.acquire('more')
    // Neither starts the next broker, nor learns from it that it has lost.
    holder.stop()
    other.stop()
    await broker.kill()
    const bytes = readFileSync(file)
    const at = find(String(bytes))
    assert.ok(at > 10)
    bytes.writeUInt8(bytes.readUInt8(at) ^ 1, at)
    writeFileSync(file, bytes)
    for (let i = 0; i < 2; i++) {
      const next = await start({ directory })
      for (const name of ['x', 'kept', 'never used']) assert.equal(await next.tryAcquire(name), undefined)
      await next.kill()
    }
    other.go()
    assert.equal(await other.state(kept), 'held')
    assert.equal(await other.release(kept), 'released')
    assert.equal(await other.tryAcquire('x'), undefined)
    holder.go()
    await using locks = createLocks(local({ directory }))
    const { holders } = await locks.inspect('x')
    assert.match(
      `${holders.at(-1)?.note}`,
      /^line \d+ of the journal was damaged, so another process may hold it$/,
    )
  })

/** A directory with the journal of a broker that was killed in a quarantine of which so many ms are left. */
function quarantined(left: number): string {
  const directory = freshDirectory()
  const quarantine = { until: sinceBoot() + left, ttl: left, why: 'line 3 of the journal was damaged' }
  const lines = toLines.header({ ...here, pid: 1 }, 0) + toLines.quarantine(quarantine)
  writeFileSync(join(directory, 'journal'), lines)
  return directory
}

test('a waiter is granted the lock as soon as the quarantine is over', async () => {
  const left = 1_500
  const from = now()
  const directory = quarantined(left)
  const one = await start({ directory })
  const taken = await one.acquire('x')
  // The clock of the machine's uptime has hundredths of a second.
  assert.ok(taken.at >= from + left - 20, `after ${taken.at - from} ms`)
  assert.ok(await one.tryAcquire('y'))
})

test('meanwhile whoever gives up is told why, cells are refused, and an operator can end it for one lock', async () => {
  const directory = quarantined(600_000)
  await using locks = createLocks(local({ directory }))
  assert.equal(await locks.mutex('warm').tryAcquire(), undefined)
  await assert.rejects(locks.mutex('x').acquire({ wait: 2_000 }), {
    code: 'ACQUIRE_TIMEOUT',
    message: /held by unknown .*line 3 of the journal was damaged, so another process may hold it/,
  })
  const driver = local({ directory })(systemEnv())
  await assert.rejects(async () => driver.cells?.read('key', new AbortController().signal), {
    code: 'BACKEND',
    message: /no cell is known for certain: line 3 of the journal was damaged; wait for \d+ s/,
  })
  await driver.close()
  assert.equal(await locks.forceRelease('x'), 1)
  assert.ok(await locks.mutex('x').tryAcquire())
  assert.equal(await locks.mutex('y').tryAcquire(), undefined)
})

test('it lasts for the longest ttl that any line tells of, and is not recorded once it is over', async () => {
  const directory = freshDirectory()
  const file = join(directory, 'journal')
  const clock = fakeClock()
  const text = `${toLines.header(here, 0)}${toLines.longest(90_000)}["g","x"\n`
  const broker = createBroker(parseJournal(text), {
    clock,
    wall: () => 1_700_000_000_000 + clock.now(),
    uptime: () => 5_000_000 + clock.now(),
    here,
    open: (snapshot) => openJournal(directory, here, snapshot),
  })
  const recorded = () => parseJournal(readFileSync(file, 'utf8')).quarantine
  assert.equal(recorded()?.until, 5_000_000 + 90_000 + clock.now())
  const said: (readonly unknown[])[] = []
  const connection = { send: (message: readonly unknown[]) => void said.push(message), end: () => undefined }
  const who = { client: 'one', by: 'host:1', mark: here, held: [], asked: [] }
  const { client } = broker.enter(connection, who)
  broker.call(client, [1, 'acquire', 'x', 'a', 'x', 1_000, true, 0, ''])
  await clock.advance(89_999)
  assert.deepEqual(
    said.map(([, what]) => what),
    ['waiting'],
  )
  await clock.advance(1)
  assert.deepEqual(
    said.map(([, what]) => what),
    ['waiting', 'granted'],
  )
  broker.repair()
  assert.equal(recorded(), undefined)
  broker.stop()
})

test('a damaged journal of an earlier start of the machine keeps nobody waiting', async () => {
  const directory = freshDirectory()
  const old = { ...here, boot: 'an earlier one' }
  writeFileSync(join(directory, 'journal'), `${toLines.header(old, 9e15)}${'\0'.repeat(99)}\n\0\0`)
  assert.ok(Number(await (await start({ directory })).tryAcquire('x')) > 9e15)
})

after(endAll)
after(leakCheck)
