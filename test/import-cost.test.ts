// Runs alone because it measures time.
// Second tier because what an import costs seldom changes.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { root } from './support/checkout.js'
import { leakCheck } from './support/leaks.js'

test('to import holdfast/redis takes at most 50 ms of processor', () => {
  const bundle = pathToFileURL(join(root, 'build/dist/redis.js')).href
  const program = `
    const before = process.cpuUsage()
    await import('${bundle}')
    const { user, system } = process.cpuUsage(before)
    console.log((user + system) / 1000)`
  const args = ['--input-type=module', '-e', program]
  // Other work on the machine can only make a run dearer: the cheapest shows what the import costs. Each counts within one process, for
  // two processes differ by more than the import, by the start of Node alone.
  const costs = Array.from({ length: 9 }, () =>
    Number(execFileSync(process.execPath, args, { encoding: 'utf8' })),
  )
  const took = Math.min(...costs)
  assert.ok(took > 0 && took <= 50, `${took.toFixed(1)} ms`)
})

after(leakCheck)
