// One queue with `etcdctl lock`: the real program, before us, behind us, and many of both at once.
// Second tier because the programs of others seldom change.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { appendFileSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, type TestContext, test } from 'node:test'
import { locksOf, placesOf } from '../drivers/etcd/support/scene.js'
import { leakCheck } from '../support/leaks.js'
import { etcdctl, startEtcd } from '../support/servers/etcd.js'
import { makeFolder } from '../support/servers/places.js'
import { until } from '../support/until.js'

const server = await startEtcd()
/** A program of its own takes its time to start on a busy machine. */
const patient = { within: 60_000 }
const folder = makeFolder('etcdctl')
after(async () => {
  await server.stop()
  await folder.remove()
})
const programs = { '3.4': await etcdctl('3.4'), '3.5': await etcdctl('3.5') } as const

/** `etcdctl lock NAME COMMAND…`, or without a command: it prints its key and holds until it is interrupted. */
function lock(
  t: TestContext,
  version: keyof typeof programs,
  name: string,
  ...command: string[]
): ChildProcess {
  const args = [
    '--endpoints',
    server.url,
    'lock',
    `holdfast/${name}`,
    ...(command.length > 0 ? ['--', ...command] : []),
  ]
  const child = spawn(programs[version], args, {
    cwd: folder.path,
    env: { PATH: process.env['PATH'] ?? '', ETCDCTL_API: '3' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.after(() => child.kill('SIGKILL'))
  return child
}

const ended = (child: ChildProcess): Promise<unknown> => new Promise((resolve) => child.once('exit', resolve))

for (const version of ['3.4', '3.5'] as const) {
  test(`etcdctl ${version} keeps us out, and we keep it out`, async (t) => {
    const { locks } = locksOf(t, server.url)
    const name = `both ${version}`
    const theirs = lock(t, version, name)
    const over = ended(theirs)
    const text = await new Promise<string>((resolve) =>
      theirs.stdout?.once('data', (data) => resolve(String(data))),
    )
    assert.match(text.trim(), new RegExp(`^holdfast/${name}/[0-9a-f]+$`))
    assert.equal(await locks.mutex(name).tryAcquire(), undefined)
    assert.equal(await locks.readWrite(name).read.tryAcquire(), undefined)
    const waits = locks.mutex(name).acquire()
    await until(async () => (await placesOf(server, name)).length === 2)
    const { holders, waiters } = await locks.inspect(name)
    assert.equal(holders[0]?.mode.kind, 'exclusive')
    assert.ok((holders[0]?.expiresIn ?? 0) > 0 && (holders[0]?.expiresIn ?? 0) <= 60_000)
    assert.equal(waiters.length, 1)
    theirs.kill('SIGINT')
    await over
    const ours = await waits
    assert.ok(ours.token > (holders[0]?.token ?? Number.POSITIVE_INFINITY))

    const behind = lock(t, version, name, 'sh', '-c', 'echo $ETCD_LOCK_REV')
    const heard = new Promise<string>((resolve) =>
      behind.stdout?.once('data', (data) => resolve(String(data))),
    )
    await until(async () => (await placesOf(server, name)).length === 2, patient)
    assert.equal(behind.exitCode, null)
    await ours.release()
    // Its token is of the same kind as ours, so a resource can compare the two.
    assert.ok(Number(await heard) > ours.token)
  })
}

test('a mixed crowd keeps exclusion, and the order in which it came', async (t) => {
  const name = 'mixed'
  const { locks } = locksOf(t, server.url)
  const first = await locks.mutex(name).acquire()
  const file = join(folder.path, 'log')
  appendFileSync(file, '')
  const enter = (who: string) => appendFileSync(file, `in ${who}\n`)
  const leave = (who: string) => appendFileSync(file, `out ${who}\n`)
  const done: Promise<unknown>[] = []
  for (let i = 0; i < 12; i++) {
    if (i % 3 === 0) {
      const version = i % 2 ? '3.4' : '3.5'
      const child = lock(
        t,
        version,
        name,
        'sh',
        '-c',
        `echo in ${i} >> log; sleep 0.03; echo out ${i} >> log`,
      )
      done.push(ended(child))
    } else {
      // Each from a process's worth of its own: inside one they would be one place.
      const mine = locksOf(t, server.url).locks
      const section = async () => {
        enter(String(i))
        await new Promise((resolve) => setTimeout(resolve, 10))
        leave(String(i))
      }
      done.push(mine.mutex(name).run(section))
    }
    await until(async () => (await placesOf(server, name)).length === i + 2, patient)
  }
  await first.release()
  await Promise.all(done)
  const lines = readFileSync(file, 'utf8').trim().split('\n')
  assert.deepEqual(lines, Array.from({ length: 12 }, (_, i) => [`in ${i}`, `out ${i}`]).flat())
  await until(async () => (await placesOf(server, name)).length === 0)
})

test('an etcdctl that is killed blocks for its own ttl, not for ever', async (t) => {
  const name = 'killed'
  const { locks } = locksOf(t, server.url)
  const child = spawn(
    programs['3.5'],
    ['--endpoints', server.url, 'lock', '--ttl', '1', `holdfast/${name}`],
    {
      env: { PATH: process.env['PATH'] ?? '' },
      stdio: 'ignore',
    },
  )
  t.after(() => child.kill('SIGKILL'))
  const over = ended(child)
  await until(async () => (await placesOf(server, name)).length === 1, patient)
  const waits = locks.mutex(name).acquire()
  child.kill('SIGKILL')
  await over
  await (await waits).release()
})

after(leakCheck)
