// One key with `consul lock`: the real program, before us, after us, and many of both at once.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { appendFileSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, type TestContext, test } from 'node:test'
import { lockOf, locksOf, placesOf } from '../drivers/consul/support/scene.js'
import { leakCheck } from '../support/leaks.js'
import { consulProgram, startConsul } from '../support/servers/consul.js'
import { makeFolder } from '../support/servers/places.js'
import { until } from '../support/until.js'

const server = await startConsul()
const folder = makeFolder('consul-lock')
after(async () => {
  await server.stop()
  await folder.remove()
})
const program = await consulProgram()

/** `consul lock holdfast/NAME COMMAND`. */
function lock(t: TestContext, name: string, command: string): ChildProcess {
  const args = ['lock', `-http-addr=${server.url}`, '-verbose', `holdfast/${name}`, command]
  const child = spawn(program, args, {
    cwd: folder.path,
    env: { PATH: process.env['PATH'] ?? '', SHELL: '/bin/sh' },
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  t.after(() => {
    child.kill('SIGKILL')
    // What it runs may outlive it, and keeps this open.
    child.stdout?.destroy()
  })
  return child
}

const ended = (child: ChildProcess): Promise<unknown> => new Promise((resolve) => child.once('exit', resolve))

test('consul lock keeps us out, and we keep it out', async (t) => {
  const locks = locksOf(t, server.url).locks
  const name = 'both'
  const theirs = lock(t, name, 'touch in; while [ ! -e go ]; do sleep 0.05; done')
  await until(async () => (await lockOf(server, name))?.Session !== undefined, { within: 60_000 })
  assert.equal(await locks.mutex(name).tryAcquire(), undefined)
  const { holders } = await locks.inspect(name)
  assert.equal(holders.length, 1)
  assert.equal(holders[0]?.attempt, (await lockOf(server, name))?.Session)
  const waits = locks.mutex(name).acquire()
  await until(async () => (await placesOf(server, name)).length === 1)
  const over = ended(theirs)
  appendFileSync(join(folder.path, 'go'), '')
  await over
  const ours = await waits
  assert.ok(ours.token > (holders[0]?.token ?? Number.POSITIVE_INFINITY))

  const behind = lock(t, name, 'echo $CONSUL_LOCK_HELD > held')
  const said = new Promise<void>((resolve) => {
    behind.stdout?.on('data', (data) => /Attempting lock acquisition/.test(String(data)) && resolve())
  })
  await said
  assert.equal(behind.exitCode, null)
  const done = ended(behind)
  assert.equal(await ours.release(), 'released')
  await done
  assert.equal(readFileSync(join(folder.path, 'held'), 'utf8').trim(), 'true')
})

test('a mixed crowd keeps exclusion, and tokens grow', async (t) => {
  const name = 'mixed'
  const file = join(folder.path, 'log')
  appendFileSync(file, '')
  const done: Promise<unknown>[] = []
  const tokens: number[] = []
  for (let i = 0; i < 9; i++) {
    if (i % 3 === 0) done.push(ended(lock(t, name, `echo in ${i} >> log; sleep 0.02; echo out ${i} >> log`)))
    else {
      const section = async (lease: { readonly token: number }) => {
        tokens.push(lease.token)
        appendFileSync(file, `in ${i}\n`)
        await new Promise((resolve) => setTimeout(resolve, 10))
        appendFileSync(file, `out ${i}\n`)
      }
      done.push(locksOf(t, server.url).locks.mutex(name).run(section))
    }
  }
  await Promise.all(done)
  const lines = readFileSync(file, 'utf8').trim().split('\n')
  assert.equal(lines.length, 18)
  for (let i = 0; i < lines.length; i += 2) {
    assert.equal(lines[i]?.replace('in', 'out'), lines[i + 1], `two were inside: ${lines.join(', ')}`)
  }
  assert.deepEqual(
    tokens,
    [...tokens].sort((a, b) => a - b),
  )
})

test('an operator can take the lock from consul lock by force', async (t) => {
  const locks = locksOf(t, server.url).locks
  const theirs = lock(t, 'forced', 'sleep 60')
  // It ends by itself when it sees that the lock is gone, which may be before it is killed.
  const over = ended(theirs)
  await until(async () => (await lockOf(server, 'forced'))?.Session !== undefined, { within: 60_000 })
  assert.equal(await locks.forceRelease('forced'), 1)
  const lease = await locks.mutex('forced').acquire()
  theirs.kill('SIGKILL')
  await over
  await lease.release()
})

after(leakCheck)
