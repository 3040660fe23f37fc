import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { leakCheck } from '../support/leaks.js'

const child = fileURLToPath(new URL('./process-end-child.js', import.meta.url))
const run = (what: string) =>
  spawnSync(process.execPath, [child, what], { encoding: 'utf8', timeout: 120_000 })

test('a wait without an end keeps the process alive until it is granted', () => {
  const { status, stdout, stderr } = run('wait')
  assert.equal(stdout, 'granted\n', stderr)
  assert.equal(status, 0)
})

test('a lease alone does not, nor one that listens for being asked back', () => {
  const { status, stdout, stderr } = run('hold')
  assert.equal(stdout, 'held\n', stderr)
  assert.equal(status, 0)
})

after(leakCheck)
