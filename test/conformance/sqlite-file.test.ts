// What the suite cannot test on the example driver: a restart of the machine, rows of names used once, a locked file, two clients.
import assert from 'node:assert/strict'
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { createLocks } from 'holdfast'
import Database from 'libsql'
import { sqlite } from '../../examples/sqlite-driver/driver.js'
import { root } from '../support/checkout.js'
import { blank } from '../support/imports.js'
import { leakCheck } from '../support/leaks.js'
import { unpacked } from '../support/servers/fetch.js'

const folder = mkdtempSync(join(tmpdir(), 'holdfast-sqlite-'))
let files = 0

function open(path = join(folder, `${++files}.db`)) {
  const database = new Database(path)
  const locks = createLocks(sqlite({ database }))
  return {
    path,
    database,
    locks,
    async [Symbol.asyncDispose]() {
      await locks.close()
      database.close()
    },
  }
}

test('a mutex is handed over inside the process, with the next token', async () => {
  await using store = open()
  const granted: (readonly [token: number, handedOff: boolean])[] = []
  store.locks.on('granted', ({ token, handedOff }) => granted.push([token, handedOff]))
  const first = await store.locks.mutex('a').acquire()
  const next = store.locks.mutex('a').acquire()
  await first.release()
  await (await next).release()
  assert.deepEqual(granted, [
    [first.token, false],
    [first.token + 1, true],
  ])
})

test('a restart of the machine ends holds and keeps tokens growing', async () => {
  await using store = open()
  const lease = await store.locks.mutex('a').acquire({ ttl: 60_000 })
  const ahead = lease.token + 1_000_000_000
  store.database.prepare(`update holdfast_rows set boot = 'another', token = ?`).run(ahead)
  const next = await store.locks.mutex('a').tryAcquire()
  assert.equal(next, undefined, 'this process still counts on its lease')
  await using other = open(store.path)
  const granted = await other.locks.mutex('a').tryAcquire()
  assert.ok(granted !== undefined && granted.token > ahead)
})

test('names used once leave no rows, and the greatest token stays', async () => {
  await using store = open()
  const { token } = await store.locks.mutex('name 0').acquire()
  const ahead = token + 1_000_000_000
  for (let i = 1; i < 600; i++) await store.locks.mutex(`name ${i}`).run(() => undefined)
  store.database
    .prepare(`update holdfast_rows set changed = -1e9, token = ? where name = 'name 1'`)
    .run(ahead)
  store.database.prepare(`update holdfast_rows set changed = -1e9`).run()
  for (let i = 0; i < 600; i++) await store.locks.mutex('again').run(() => undefined)
  const names = store.database.prepare('select name from holdfast_rows order by name').all()
  assert.deepEqual(
    names.map((row) => (row as { name: string }).name),
    ['', 'again', 'name 0'],
    'the floor, the one in use, the one held',
  )
  const later = await store.locks.mutex('name 1').acquire()
  assert.ok(later.token > ahead)
})

test('a file that another process keeps locked is an outage, not contention', async () => {
  await using store = open()
  await store.locks.mutex('a').run(() => undefined)
  const blocker = new Database(store.path)
  blocker.exec('begin immediate')
  await assert.rejects(store.locks.mutex('a').acquire({ wait: 300 }), { code: 'UNAVAILABLE' })
  blocker.exec('rollback')
  blocker.close()
  await store.locks.mutex('a').run(() => undefined, { wait: 1_000 })
})

test('the SQLite of Node itself serves as well, beside another client of the file', async () => {
  await using store = open()
  const lease = await store.locks.mutex('a').acquire()
  const program = `
    import { DatabaseSync } from 'node:sqlite'
    import { createLocks } from 'holdfast'
    import { sqlite } from './build/examples/sqlite-driver/driver.js'
    const locks = createLocks(sqlite({ database: new DatabaseSync(process.argv[1]) }))
    console.log((await locks.mutex('a').tryAcquire()) === undefined)
    console.log((await locks.mutex('a').acquire({ wait: 60_000 })).token)
    await locks.close()`
  const node = join((await unpacked('node24')).root, 'bin/node')
  const { stdout, stderr } = await ended(
    spawn(node, ['--no-warnings', '--input-type=module', '-e', program, store.path], { cwd: root }),
    () => lease.release(),
  )
  const [busy, token] = stdout.split('\n')
  assert.equal(busy, 'true', stderr)
  assert.ok(Number(token) > lease.token, stderr)
})

test('the driver has fewer than 300 lines of code', () => {
  const code = ['driver.ts', 'file.ts']
    .map((name) => blank(readFileSync(join(root, 'examples/sqlite-driver', name), 'utf8')))
    .flatMap((text) => text.split('\n'))
    .filter((line) => line.trim() !== '')
  assert.ok(code.length < 300, `it has ${code.length}`)
})

/** @param refused called once the child has printed its first line */
async function ended(child: ChildProcessWithoutNullStreams, refused: () => Promise<unknown>) {
  const output = { stdout: '', stderr: '' }
  child.stderr.on('data', (data) => {
    output.stderr += data
  })
  for await (const data of child.stdout) {
    if (output.stdout === '') await refused()
    output.stdout += data
  }
  return output
}

after(leakCheck)
after(() => rmSync(folder, { recursive: true }))
