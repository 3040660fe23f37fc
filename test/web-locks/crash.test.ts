// 2.5 Termination of locks, without a clean exit: the process that holds is killed.
import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { createLocks } from 'holdfast'
import { local } from 'holdfast/local'
import { lockManager } from 'holdfast/web-locks'
import { leakCheck } from '../support/leaks.js'

test('2.5 Termination of locks: those of a killed process go to the next waiter', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-web-locks-'))
  const locks = createLocks(local({ directory }))
  const manager = lockManager(locks)
  await manager.request('broker', () => undefined)
  const child = fork(new URL('./hold-in-child.js', import.meta.url), [directory])
  await once(child, 'message')
  assert.deepEqual((await manager.query()).held, [{ name: 'a', mode: 'exclusive', clientId: 'child' }])
  const next = manager.request('a', ({ lease }) => lease.token)
  child.kill('SIGKILL')
  await once(child, 'exit')
  assert.ok((await next) > 0)
  await locks.close()
  rmSync(directory, { recursive: true })
})

after(leakCheck)
