// Cells outlive the broker that wrote them; who waits for a change does not notice that brokers come and go.
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { after, test } from 'node:test'
import type { Cells } from 'holdfast/driver'
import { local } from 'holdfast/local'
import { systemEnv } from '../../../src/core/engine.js'
import { journalFile } from '../../../src/drivers/local/journal.js'
import { toLine } from '../../../src/drivers/local/journal-text.js'
import { leakCheck } from '../../support/leaks.js'
import { until } from '../../support/until.js'
import { brokerOf, endAll, freshDirectory, start } from './processes.js'

const env = systemEnv()
const never = new AbortController().signal

/** Cells of a directory whose broker runs in a child. */
async function scene() {
  const options = { directory: freshDirectory() }
  const broker = await start(options)
  await broker.acquire('who-runs-the-broker')
  assert.equal(brokerOf(options.directory), broker.pid)
  const driver = local(options)(env)
  const cells = driver.cells as Cells
  const write = (key: string, ifVersion: number, value: string | undefined, ttl = Number.POSITIVE_INFINITY) =>
    cells.write(key, { ifVersion, value, ttl, id: env.id() }, never)
  return { ...options, broker, driver, cells, write }
}

test('the value of a cell outlives the process that ran the broker, and versions continue', async () => {
  const { broker, driver, cells, write } = await scene()
  const kept = await write('kept', 0, 'one')
  const removed = await write('removed', (await write('removed', 0, 'x'))?.version ?? 0, undefined)
  const change = { ifVersion: 0, value: 'twice', ttl: 60_000, id: env.id() }
  const twice = await cells.write('twice', change, never)
  await write('brief', 0, 'gone soon', 300)
  await broker.kill()
  assert.deepEqual(await cells.read('kept', never), kept)
  assert.equal(await cells.read('removed', never), undefined)
  assert.deepEqual(await cells.write('twice', change, never), twice)
  const next = await write('kept', kept?.version ?? 0, 'two')
  assert.ok((next?.version ?? 0) > (removed?.version ?? Number.NaN), `${next?.version}`)
  await until(async () => (await cells.read('brief', never)) === undefined)
  await driver.close()
})

test('a change is noticed across the death of the broker', async () => {
  const { broker, driver, cells, write } = await scene()
  const cell = await write('x', 0, 'one')
  const heard = cells.changed('x', cell?.version ?? 0, never)
  await broker.kill()
  await write('x', cell?.version ?? 0, 'two')
  await heard
  await driver.close()
})

test('cells of an earlier start of the machine are gone', async () => {
  const { directory, broker, driver, cells, write } = await scene()
  await write('x', 0, 'one')
  await broker.kill()
  await driver.close()
  const text = readFileSync(journalFile(directory), 'utf8')
  assert.match(text, /^\["c","x",/m)
  const lines = text
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line).slice(0, -1) as unknown[])
  for (const fields of lines) if (fields[0] === 'v') fields[2] = 'another start'
  writeFileSync(journalFile(directory), lines.map(toLine).join(''))
  // A process that waits has the next broker up, however long that takes; a mere question is given up.
  await (await start({ directory })).acquire('who-runs-the-broker')
  const after = local({ directory })(env)
  assert.equal(await (after.cells as Cells).read('x', never), undefined)
  assert.ok(cells !== after.cells)
  await after.close()
})

after(endAll)
after(leakCheck)
