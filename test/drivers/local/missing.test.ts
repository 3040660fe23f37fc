// Who only reads creates nothing, and a directory that was deleted is not one that nobody has used.
import assert from 'node:assert/strict'
import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { createLocks } from 'holdfast'
import { local } from 'holdfast/local'
import { leakCheck } from '../../support/leaks.js'
import { endAll, freshDirectory, start } from './processes.js'

test('inspect and list find nothing held in a directory that is missing, and do not create it', async () => {
  const directory = join(freshDirectory(), 'not', 'there')
  await using locks = createLocks(local({ directory }))
  assert.deepEqual(await locks.list(), [])
  assert.deepEqual(await locks.inspect('x'), { name: 'x', holders: [], waiters: [], lastToken: 0 })
  assert.equal(existsSync(directory), false)
  const lease = await locks.mutex('x').acquire()
  assert.equal((await locks.list()).length, 1)
  assert.equal((await locks.inspect('x')).holders[0]?.token, lease.token)
  await lease.release()
})

test('locks that another process holds there are seen as soon as it appears', async () => {
  const directory = join(freshDirectory(), 'later')
  await using locks = createLocks(local({ directory }))
  assert.deepEqual(await locks.list(), [])
  const other = await start({ directory })
  const { token } = await other.acquire('x')
  assert.equal((await locks.inspect('x')).holders[0]?.token, token)
})

test('a path below a file is still an error', async () => {
  await using locks = createLocks(local({ directory: '/dev/null/locks' }))
  await assert.rejects(locks.list(), { code: 'BACKEND', message: /cannot use directory .*ENOTDIR/ })
})

test('a directory that was deleted under this process is an error, not nothing held', async () => {
  const directory = freshDirectory()
  {
    await using locks = createLocks(local({ directory }))
    await locks.mutex('x').acquire()
  }
  rmSync(directory, { recursive: true })
  await using locks = createLocks(local({ directory }))
  const refusal = { code: 'BACKEND', message: /was deleted while this process used it/ }
  await assert.rejects(locks.list(), refusal)
  await assert.rejects(locks.inspect('x'), refusal)
  assert.equal(existsSync(directory), false)
})

after(endAll)
after(leakCheck)
