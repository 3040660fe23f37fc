// Three hosts whose clocks differ start the same nightly job: it runs once.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { leakCheck } from '../support/leaks.js'
import { bench } from './support/cli.js'

const { folder, cli, close } = bench()
const ran = join(folder, 'ran')
const line = ['run', 'nightly', '--no-wait', '-q', '-E', '0']
const job = ['--', 'sh', '-c', `echo ran >> ${ran}`]

test('hosts that come after the run has ended skip it, silently', async () => {
  for (let host = 0; host < 3; host++) {
    const { code, stdout, stderr } = await cli(...line, '--min-hold', '1h', ...job)
    assert.deepEqual([code, stdout, stderr], [0, '', ''])
  }
  assert.equal(readFileSync(ran, 'utf8'), 'ran\n')
})

test('without --min-hold each of them runs it', async () => {
  const other = join(folder, 'again')
  const each = ['run', 'again', '--no-wait', '--', 'sh', '-c', `echo ran >> ${other}`]
  for (let host = 0; host < 3; host++) assert.equal((await cli(...each)).code, 0)
  assert.equal(readFileSync(other, 'utf8'), 'ran\nran\nran\n')
})

after(close)
after(leakCheck)
