// Who a process is, and whether another has ended, when the system does not tell.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { hasExited, type ProcessIdentity, thisProcess } from '../../../src/drivers/local/processes.js'
import { openRuntimeDirectory } from '../../../src/drivers/local/runtime-directory.js'
import { withoutDescriptors } from '../../support/descriptors.js'
import { leakCheck } from '../../support/leaks.js'
import { endAll, freshDirectory } from './processes.js'

const linux = { skip: process.platform !== 'linux' && '/proc is of Linux' }

test('without a file descriptor left a process does not pass for one of an unknown boot', linux, async () => {
  const directory = freshDirectory()
  await withoutDescriptors(process.pid, () => {
    assert.throws(thisProcess, { code: 'EMFILE' })
    assert.throws(() => openRuntimeDirectory(directory, undefined), { code: 'BACKEND', message: /EMFILE/ })
  })
  const here = thisProcess()
  assert.match(here.start, /^\d+$/)
  assert.match(here.boot, /^[0-9a-f-]{36}$/)
  await withoutDescriptors(process.pid, () => {
    assert.deepEqual(thisProcess(), here)
    assert.equal(hasExited(here, here), false)
  })
})

test('a process of another boot has ended; for an unknown boot its pid decides', linux, () => {
  const here = thisProcess()
  const other = (more: Partial<ProcessIdentity>) => hasExited({ ...here, ...more }, here)
  assert.equal(other({ boot: 'another' }), true)
  assert.equal(other({ boot: '' }), false)
  assert.equal(other({ boot: '', start: '' }), false)
  assert.equal(other({ boot: '', pid: 2 ** 22 + 1 }), true)
  assert.equal(hasExited(here, { ...here, boot: '' }), false)
})

after(endAll)
after(leakCheck)
