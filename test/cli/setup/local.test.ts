// The report on the directory of `local:`; looking creates nothing.
import assert from 'node:assert/strict'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { Check } from '../../../src/cli/setup/check.js'
import { checkSetup } from '../../../src/cli/setup/setup.js'
import { leakCheck } from '../../support/leaks.js'

let folder: string
before(() => {
  folder = mkdtempSync(join(tmpdir(), 'holdfast-setup-'))
})
after(() => rmSync(folder, { recursive: true }))

async function told(path: string, what: string): Promise<Check> {
  const checks = await checkSetup(`local:${path}`)
  const check = checks.find((one) => one.what === what)
  assert.ok(check !== undefined, `nothing was said of ${what}`)
  return check
}

test('a directory that is not there is made at the first use, not by looking', async () => {
  const path = join(folder, 'not', 'yet')
  assert.match((await told(path, 'permissions')).found, /is made at the first use/)
  assert.match((await told(path, 'file system')).found, /is on this machine/)
  assert.ok(!existsSync(join(folder, 'not')))
})

test('one that others may write to, or that is a file, is refused as the driver refuses it', async () => {
  const open = join(folder, 'open')
  mkdirSync(open)
  chmodSync(open, 0o777)
  const { verdict, remedy } = await told(open, 'permissions')
  assert.deepEqual([verdict, remedy], ['bad', `chmod 700 ${open}`])
  chmodSync(open, 0o700)
  assert.equal((await told(open, 'permissions')).verdict, 'ok')
  const file = join(folder, 'file')
  writeFileSync(file, '')
  assert.match((await told(file, 'permissions')).found, /is not a directory/)
})

test('a file system without room is reported', async () => {
  const { verdict, means } = await told('/proc/1', 'room')
  assert.equal(verdict, 'weak')
  assert.match(means ?? '', /when the disk is full, no lock can be taken/)
})

after(leakCheck)
