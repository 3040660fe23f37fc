// Every command on one store, as an operator meets it: exit code, stdout, stderr, and what becomes of the command's processes.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { createLocks } from 'holdfast'
import { target } from '../../../src/cli/connect.js'
import { until } from '../../support/until.js'
import { alive, type Bench, bench, besidesSilence, type Ended, kill, type Running } from './cli.js'
import { absent, type Store, type StoreName, stores } from './stores.js'

/** Seconds: long enough for a heartbeat, a renewal and whatever else only happens after a while. */
const work = 12

export function matrix(names: readonly StoreName[]): void {
  for (const name of names)
    describe(name, () => {
      const at = onStore(name)
      describe('healthy', { concurrency: 3 }, () => healthy(name, at))
      if (name !== 'local')
        test('a store that goes down: the command is terminated before its lease ends, and requests end', () =>
          gone(name, at()))
    })
}

/** What nobody can do without: a command runs, another one waits for it and runs, and a stranger's lock is seen. */
export function smoke(names: readonly StoreName[]): void {
  for (const name of names)
    describe(name, () => {
      const at = onStore(name)
      test('a free lock: the command runs, and nothing else is said', () => free(at()))
      test('a lock that was waited for: the command runs to its end', () => handedOver(at(), 1))
      test('ls and inspect tell who holds', () => looks(name, at()))
    })
}

interface Scene extends Bench {
  readonly store: Store
}

function onStore(name: StoreName): () => Scene {
  let scene: Scene
  before(async () => {
    const store = await stores[name]()
    scene = { ...bench(store.url), store }
    // Whoever comes first owns what is made at the first use.
    assert.equal((await scene.cli('run', 'first', '--', 'true')).code, 0)
  })
  after(async () => {
    scene.close()
    await scene.store.stop()
  })
  return () => scene
}

function healthy(name: StoreName, at: () => Scene): void {
  test('a free lock: the command runs, and nothing else is said', () => free(at()))
  test(`a lock that was waited for: a command of ${work} s runs to its end`, () => handedOver(at(), work))
  test('a busy lock is reported, or not', () => busy(at()))
  if (name === 'postgres session')
    test('an operator cannot force-release an advisory lock, and gets an error that says so', () =>
      notForced(at()))
  else test('a lock that an operator takes away: the command is ended', () => forced(at()))
  test('hold keeps a lock for a script until release --token, or until the script ends', () => heldFor(at()))
  if (name !== 'postgres session')
    test('hold: the script whose lock an operator takes away is ended', () => heldAndForced(at()))
  test('ls and inspect tell who holds', () => looks(name, at()))
  test('a wrong password is reported, by every command, and not repeated', () => wrongPassword(name, at()))
  if (name !== 'local') test('a URL with the scheme of another store', () => wrongScheme(name, at()))
  test('verify judges it', () => verified(name, at()))
  test('schema prints SQL for databases, and is refused for the others', () => schema(name, at()))
  if (name !== 'local')
    test('an unreachable store is reported at once, with address and reason', () => nobody(name, at()))
}

const said = ({ code, stdout, stderr }: Ended) => [code, stdout, stderr]

/** A lock held by a program. */
async function held(scene: Scene, name: string): Promise<() => Promise<void>> {
  const { driver, close } = await target(scene.store.url).connect()
  const locks = createLocks(driver)
  const lease = await locks.mutex(name).acquire({ note: 'the test' })
  return async () => {
    await lease.release()
    await locks.close()
    await close()
  }
}

async function free(scene: Scene): Promise<void> {
  const ended = await scene.cli('run', 'free', '--', 'echo', 'hello')
  assert.deepEqual(said({ ...ended, stderr: besidesSilence(ended.stderr) }), [0, 'hello\n', ''])
}

async function handedOver(scene: Scene, work: number): Promise<void> {
  const release = await held(scene, 'handed')
  const waiter = scene.start('run', 'handed', '--', 'sh', '-c', `sleep ${work}; echo done`)
  await until(() => waiter.stderr().includes('waiting'), { within: 60_000, what: 'the run to wait' })
  await release()
  const { code, stdout, stderr } = await waiter.ended
  assert.deepEqual([code, stdout], [0, 'done\n'], stderr)
  // Once again after each time that the store could not be asked.
  assert.match(besidesSilence(stderr), /^(holdfast: waiting .* for "handed".*\n)+$/)
}

async function busy(scene: Scene): Promise<void> {
  const release = await held(scene, 'busy')
  try {
    const [told, quiet] = await Promise.all([
      scene.cli('run', 'busy', '--no-wait', '--', 'echo', 'hello'),
      scene.cli('run', 'busy', '--no-wait', '-q', '--', 'echo', 'hello'),
    ])
    assert.deepEqual(said(quiet), [75, '', ''])
    assert.deepEqual([told.code, told.stdout], [75, ''])
    assert.match(
      told.stderr,
      /^holdfast: "busy" is not free; held for .+ by .+ \("the test"\); the command was not started\n$/,
    )
  } finally {
    await release()
  }
}

/** A command that writes its process id into a file, and continues. */
async function going(scene: Scene, name: string, ...options: string[]): Promise<[Running, number]> {
  const file = join(scene.folder, `${name}.pid`)
  const run = scene.start('run', name, ...options, '--', 'sh', '-c', `echo $$ > ${file}; sleep 120`)
  await until(() => existsSync(file) && readFileSync(file, 'utf8') !== '', {
    within: 60_000,
    what: `the command under ${name}`,
  })
  return [run, Number(readFileSync(file, 'utf8'))]
}

async function forced(scene: Scene): Promise<void> {
  const [run, pid] = await going(scene, 'forced')
  const released = await scene.cli('release', 'forced', '--yes')
  assert.deepEqual(said(released), [0, 'released "forced"; its holder was notified\n', ''])
  const { code, stderr } = await run.ended
  assert.equal(code, 76, stderr)
  assert.match(stderr, /holdfast: stopping the command with SIG(KILL|TERM): the lease is/)
  assert.equal(alive(pid), false)
}

/** A script that leads its process group, as from cron; it does nothing. */
function script(scene: Scene): { readonly pid: number; readonly ended: Promise<unknown> } {
  const child = spawn('sleep', ['120'], { cwd: scene.folder, detached: true, stdio: 'ignore' })
  return { pid: child.pid ?? 0, ended: new Promise((resolve) => child.once('exit', resolve)) }
}

async function heldFor(scene: Scene): Promise<void> {
  const [first, second] = [script(scene), script(scene)]
  const held = await scene.cli('hold', 'script', '--for', `${first.pid}`)
  assert.deepEqual([held.code, besidesSilence(held.stderr)], [0, ''])
  assert.match(held.stdout, /^\d+\n$/)
  const busy = await scene.cli('hold', 'script', '--for', `${second.pid}`, '--no-wait')
  assert.deepEqual([busy.code, busy.stdout], [75, ''], busy.stderr)
  assert.match(busy.stderr, /^holdfast: "script" is not free; held for .+\n$/)
  const token = held.stdout.trim()
  const released = await scene.cli('release', 'script', '--token', token)
  assert.deepEqual(said(released), [0, 'released "script"\n', ''])
  const again = await scene.cli('release', 'script', '--token', token)
  assert.deepEqual([again.code, again.stdout], [1, ''], again.stderr)
  assert.match(
    again.stderr,
    /^holdfast: no holdfast hold of yours on this machine has "script" with token \d+; .+\n$/,
  )
  const next = await scene.cli('hold', 'script', '--for', `${second.pid}`)
  assert.deepEqual([next.code, besidesSilence(next.stderr)], [0, ''])
  assert.ok(BigInt(next.stdout) > BigInt(token), `${next.stdout} after ${token}`)
  kill(second.pid, 'SIGKILL')
  const run = await scene.cli('run', 'script', '--', 'echo', 'hello')
  assert.deepEqual([run.code, run.stdout], [0, 'hello\n'], run.stderr)
  assert.equal(alive(first.pid), true)
  kill(first.pid, 'SIGKILL')
}

async function heldAndForced(scene: Scene): Promise<void> {
  const owner = script(scene)
  const held = await scene.cli('hold', 'scripted', '--for', `${owner.pid}`)
  assert.deepEqual([held.code, besidesSilence(held.stderr)], [0, ''])
  const released = await scene.cli('release', 'scripted', '--yes')
  assert.deepEqual(said(released), [0, 'released "scripted"; its holder was notified\n', ''])
  await owner.ended
  const late = await scene.cli('release', 'scripted', '--token', held.stdout.trim())
  assert.notEqual(late.code, 0)
}

async function notForced(scene: Scene): Promise<void> {
  const [run, pid] = await going(scene, 'forced')
  const refused = await scene.cli('release', 'forced', '--yes')
  assert.deepEqual([refused.code, refused.stdout], [64, ''])
  assert.match(refused.stderr, /^holdfast: driver postgres has no forced release; .+\n$/)
  kill(run.pid, 'SIGTERM')
  assert.equal((await run.ended).code, 143)
  assert.equal(alive(pid), false)
}

async function looks(name: StoreName, scene: Scene): Promise<void> {
  const release = await held(scene, 'looked')
  const [ls, all, inspect] = await Promise.all([
    scene.cli('ls', 'look'),
    scene.cli('ls', 'look', '--json'),
    scene.cli('inspect', 'looked'),
  ])
  await release()
  if (name === 'redlock') {
    assert.deepEqual([ls.code, ls.stdout, all.code, all.stderr], [64, '', 64, ''])
    assert.equal(JSON.parse(all.stdout).error.code, 'UNSUPPORTED')
  } else {
    assert.deepEqual([ls.code, ls.stderr], [0, ''])
    assert.match(ls.stdout, /^NAME.*\nlooked .*the test/)
    assert.equal(JSON.parse(all.stdout).locks[0].holders[0].note, 'the test')
  }
  assert.deepEqual([inspect.code, inspect.stderr], [0, ''])
  assert.match(inspect.stdout, /^"looked" is held\n\nMODE.*\nexclusive .*the test/)
}

async function wrongPassword(name: StoreName, scene: Scene): Promise<void> {
  const { wrong } = scene.store
  if (wrong === undefined) return
  const owner = `${script(scene).pid}`
  const ended = await Promise.all([
    scene.cli('run', 'wrong', '--no-wait', '--on', wrong, '--', 'echo', 'hello'),
    scene.cli('run', 'wrong', '--wait', '2s', '--on', wrong, '--', 'echo', 'hello'),
    scene.cli('hold', 'wrong', '--for', owner, '--no-wait', '--on', wrong),
    scene.cli('inspect', 'first', '--on', wrong),
    scene.cli('release', 'first', '--yes', '--on', wrong),
    scene.cli('verify', '--on', wrong),
    ...(name === 'redlock' ? [] : [scene.cli('ls', '--on', wrong)]),
    // To ZooKeeper a wrong digest is one that nothing belongs to.
    ...(name === 'zookeeper' ? [] : [scene.cli('doctor', '--on', wrong)]),
  ])
  for (const { code, stdout, stderr } of ended) {
    assert.deepEqual([code, stdout], [69, ''], stderr)
    assert.match(stderr, /^(holdfast: .+\n)+$/)
    assert.doesNotMatch(stderr, /wrong-secret|right-secret|7f5ea000/)
  }
}

async function wrongScheme(name: StoreName, scene: Scene): Promise<void> {
  const [, hosts = ''] = /:\/\/(?:[^@/]*@)?([^,/?]+)/.exec(scene.store.url) ?? []
  const owner = `${script(scene).pid}`
  const on = name.startsWith('red') ? `mysql://app@${hosts}/app` : `redis://${hosts}`
  const ended = await Promise.all([
    scene.cli('run', 'x', '--no-wait', '--on', on, '--', 'echo', 'hello'),
    scene.cli('hold', 'x', '--for', owner, '--no-wait', '--on', on),
    scene.cli('ls', '--on', on),
    scene.cli('inspect', 'x', '--on', on),
    scene.cli('release', 'x', '--yes', '--on', on),
    scene.cli('doctor', '--on', on),
    scene.cli('verify', '--on', on),
    scene.cli('top', '--once', '--on', on),
  ])
  for (const { code, stdout, stderr } of ended) {
    assert.deepEqual([code, stdout], [69, ''], stderr)
    assert.match(stderr, /^holdfast: \S+ is [A-Z a-z,]+: write \S+:\/\/ instead of (mysql|redis):\/\/.*\n$/)
  }
}

/** In short: one test of the suite, one fault. */
async function verified(name: StoreName, scene: Scene): Promise<void> {
  const options = ['--only', 'exclusion', '--minutes', '0.01', '--json']
  const { code, stdout, stderr } = await scene.cli('verify', ...options)
  assert.equal(stderr, '')
  const { suite, faults, setup, verdict } = JSON.parse(stdout)
  assert.deepEqual([suite.failed, faults.violations, faults.complaints], [[], [], []])
  assert.ok(faults.granted > 0)
  const unfit = setup.some((check: { verdict: string }) => check.verdict === 'bad')
  assert.deepEqual([code, verdict === 'unsound'], [unfit ? 1 : 0, unfit], name)
  assert.doesNotMatch(stdout, /right-secret|7f5ea000/)
}

async function schema(name: StoreName, scene: Scene): Promise<void> {
  const { code, stdout, stderr } = await scene.cli('schema', '--on', scene.store.url)
  if (/^(postgres|mysql)/.test(name)) {
    assert.deepEqual([code, stderr], [0, ''])
    assert.match(stdout, /create table/i)
    assert.doesNotMatch(stdout, /right-secret/)
  } else {
    assert.deepEqual([code, stdout], [64, ''])
    assert.match(stderr, /^holdfast: '.+' needs no schema; only postgres: and mysql: do, .+\n$/)
    assert.doesNotMatch(stderr, /right-secret|7f5ea000/)
  }
}

async function nobody(name: Exclude<StoreName, 'local'>, scene: Scene): Promise<void> {
  const owner = `${script(scene).pid}`
  const on = absent[name]
  const ended = await Promise.all([
    scene.cli('run', 'x', '--no-wait', '--on', on, '--', 'echo', 'hello'),
    scene.cli('hold', 'x', '--for', owner, '--no-wait', '--on', on),
    scene.cli('ls', '--on', on),
    scene.cli('inspect', 'x', '--on', on),
    scene.cli('release', 'x', '--yes', '--on', on),
    scene.cli('doctor', '--on', on),
    scene.cli('verify', '--on', on),
  ])
  for (const { code, stdout, stderr } of ended) {
    assert.deepEqual([code, stdout], [69, ''], stderr)
    assert.match(stderr, /^holdfast: the store cannot be reached: 127\.0\.0\.1:1 ECONNREFUSED.* \(.+\)\n$/)
    assert.doesNotMatch(stderr, /right-secret/)
  }
  const waited = await scene.cli('run', 'x', '--wait', '3s', '--on', on, '--', 'echo', 'hello')
  assert.deepEqual([waited.code, waited.stdout], [69, ''], waited.stderr)
  assert.match(
    waited.stderr,
    /^holdfast: waiting \S+ for "x"; the store cannot be asked: 127\.0\.0\.1:1 ECONNREFUSED.*\nholdfast: the store cannot be reached: .*\n$/,
  )
}

async function gone(name: StoreName, scene: Scene): Promise<void> {
  // Their leases are as long as their sessions, whatever is asked for.
  const bounded = ['zookeeper', 'consul'].includes(name)
  const [run, pid] = await going(scene, 'gone', ...(bounded ? [] : ['--ttl', '4s']))
  const owner = script(scene)
  const held = await scene.cli(
    'hold',
    'gone too',
    '--for',
    `${owner.pid}`,
    ...(bounded ? [] : ['--ttl', '4s']),
  )
  assert.deepEqual([held.code, besidesSilence(held.stderr)], [0, ''])
  const queued = scene.start('run', 'gone', '--wait', '5s', '--', 'echo', 'hello')
  await until(() => queued.stderr().includes('waiting'), { within: 60_000, what: 'a run to wait' })
  scene.store.pause?.()
  const asked = [
    scene.start('inspect', 'gone'),
    scene.start('release', 'gone', '--yes'),
    ...(name === 'redlock' ? [] : [scene.start('ls')]),
    scene.start('doctor'),
  ]
  await Promise.all(
    asked.map(({ pid }) => until(() => isConnected(pid), { within: 60_000, what: 'a question' })),
  )
  await scene.store.kill?.()
  for (const { ended } of asked) {
    const { code, stdout, stderr } = await ended
    assert.deepEqual([code, stdout], [69, ''], stderr)
    assert.match(stderr, /^(holdfast: .+\n)+$/)
    assert.doesNotMatch(stderr, /right-secret|7f5ea000|no answer: no answer/)
  }
  const waited = await queued.ended
  assert.deepEqual([waited.code, waited.stdout], [69, ''], waited.stderr)
  assert.match(
    waited.stderr,
    /^holdfast: waiting .* for "gone".*\n(holdfast: waiting .*; the store cannot be asked: .*\n)?holdfast: (?!waiting).+\n$/,
  )
  const { code, stdout, stderr } = await run.ended
  assert.deepEqual([code, stdout], [76, ''], stderr)
  assert.match(stderr, /^(holdfast: .+\n)+$/)
  assert.match(stderr, /holdfast: stopping the command with SIG(TERM|KILL): the lease is (being )?lost/)
  assert.equal(alive(pid), false)
  await owner.ended
}

/** Has the process an established connection? */
function isConnected(pid: number): boolean {
  const [own, open] = [socketsOf(pid), readFileSync('/proc/net/tcp', 'utf8')]
  const established = open
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter(([, , , state]) => state === '01')
  return established.some((fields) => own.includes(`socket:[${fields[9]}]`))
}

function socketsOf(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`).map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`))
  } catch {
    // It or one of its files is gone.
    return []
  }
}
