// Runs alone because sixty-four processes that start together leave nothing of the machine for others.
// Second tier because it needs the machine for itself.
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { leakCheck } from '../../support/leaks.js'
import { brokerOf, endAll, freshDirectory, start } from './processes.js'

for (const socket of ['abstract', 'file'] as const) {
  test(`sixty-four processes at once elect one broker and never hold at the same time, over ${socket} sockets`, async () => {
    const options = { directory: freshDirectory(), socket }
    const counter = join(options.directory, 'counter')
    writeFileSync(counter, '0')
    const all = await Promise.all(Array.from({ length: 64 }, () => start(options)))
    const tokens: number[] = []
    await Promise.all(
      all.map(async (one) => {
        const taken = await one.acquire('x', { wait: 120_000 })
        const seen = Number(readFileSync(counter, 'utf8'))
        tokens.push(taken.token)
        await new Promise((resolve) => setImmediate(resolve))
        writeFileSync(counter, String(seen + 1))
        await one.release(taken)
      }),
    )
    assert.equal(readFileSync(counter, 'utf8'), '64')
    assert.deepEqual(
      tokens,
      [...tokens].sort((a, b) => a - b),
    )
    assert.equal(all.filter(({ pid }) => pid === brokerOf(options.directory)).length, 1)
    await endAll()
  })
}

after(async () => {
  await endAll()
  await leakCheck()
})
