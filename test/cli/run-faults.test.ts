// Whatever dies or is paused, no two commands of `holdfast run` are alive at the same time. Commands record every other millisecond that
// they live, and so does a child of each; the exclusion checker reads it.
// Second tier because it kills and stops processes for a minute; run.test.ts is the part for every change.
import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { after, afterEach, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { createLocks } from 'holdfast'
import { exclusion, type History, printViolation, readHistory } from 'holdfast/verify'
import { target } from '../../src/cli/connect.js'
import { withoutDescriptors } from '../support/descriptors.js'
import { leakCheck } from '../support/leaks.js'
import { until } from '../support/until.js'
import { alive, bench, describe, kill, type Running, stateOf } from './support/cli.js'

const { folder, url, cli, start, keeperOf, left, close } = bench()
const inside = fileURLToPath(new URL('./support/inside.js', import.meta.url))
const histories = join(folder, 'histories')
mkdirSync(histories)

/** The file of one test, and commands that write to it. */
function scene(name: string): {
  enter: (options: string[], duration: number, ...flags: string[]) => Running
  history: () => History
  entered: (n: number) => Promise<unknown>
} {
  const file = join(histories, `${name}.jsonl`)
  const enter = (options: string[], duration: number, ...flags: string[]) =>
    start(
      ...['run', name, '--wait', 'forever', ...options, '--'],
      process.execPath,
      inside,
      file,
      `${duration}`,
      ...flags,
    )
  const history = () => readHistory(file)
  const granted = () => {
    try {
      return history().acquisitions.length
    } catch {
      return 0
    }
  }
  return {
    enter,
    history,
    entered: (n) => until(() => granted() >= n, { within: 20_000, what: `entry ${n}` }),
  }
}

function assertNeverTwo(history: History, entries: number): void {
  assert.deepEqual(exclusion(history).map(printViolation), [])
  assert.equal(history.acquisitions.length, entries)
}

const brokers: (() => Promise<void>)[] = []

/** A process of its own that keeps the broker of the locks, so that a keeper's end is not the broker's. */
async function broker(): Promise<{ pid: number; stop: () => Promise<void> }> {
  const child = fork(fileURLToPath(new URL('./support/broker.js', import.meta.url)), [url], { cwd: folder })
  const gone = once(child, 'exit')
  const early = gone.then(() => Promise.reject(new Error('the process of the broker ended too early')))
  early.catch(() => undefined)
  await Promise.race([once(child, 'message'), early])
  const stop = async () => {
    kill(child.pid ?? 0, 'SIGKILL')
    await gone
  }
  brokers.push(stop)
  return { pid: child.pid ?? 0, stop }
}

/** Short enough to wait for its end, long enough to be renewed while a busy machine elects another broker. */
const short = ['--ttl', '4s']

/**
 * Somebody in the queue who needs no time to start: looks, in the very tick in which it is granted, which of these processes still run. A
 * second `holdfast run` would take a while to start its command, and so hide an end that comes a little late.
 */
async function nextInLine(
  name: string,
  pids: readonly number[],
): Promise<{ standing: Promise<unknown>; found: Promise<number[]> }> {
  const { driver } = await target(url).connect()
  const locks = createLocks(driver)
  const standing = new Promise((resolve) => locks.on('waiting', resolve))
  const found = locks
    .mutex(name)
    .run(() => pids.filter(alive), { wait: 60_000 })
    .finally(() => locks.close())
  return { standing, found }
}

const pidsOf = (history: History) => [...new Set(history.events.map(({ pid }) => pid))]

test('the front is killed: its command ends first, then the next one begins', async () => {
  const { enter, history, entered } = scene('front-killed')
  const own = await broker()
  const first = enter(['--kill-after', '200ms', ...short], 60_000, 'stubborn')
  await entered(1)
  const pids = await until(() => pidsOf(history()).length === 2 && pidsOf(history()))
  const { standing, found } = await nextInLine('front-killed', pids)
  await standing
  const second = enter([], 50)
  kill(first.pid, 'SIGKILL')
  assert.deepEqual(await found, [])
  assert.equal((await second.ended).code, 0)
  assertNeverTwo(history(), 2)
  await own.stop()
})

test('the lock process is paused: the supervisor ends the command before the lease ends', async () => {
  const own = await broker()
  const { enter, history, entered } = scene('keeper-stopped')
  // The front has a second and a half for it: half of --kill-after, and the margin.
  const first = enter(['--ttl', '8s'], 60_000, 'stubborn')
  await entered(1)
  const pids = await until(() => pidsOf(history()).length === 2 && pidsOf(history()))
  const { standing, found } = await nextInLine('keeper-stopped', pids)
  await standing
  const second = enter([], 50)
  const keeper = await keeperOf(first)
  kill(keeper, 'SIGSTOP')
  assert.deepEqual(await found, [])
  const { code, stderr } = await first.ended
  assert.equal(code, 76)
  assert.match(stderr, /the lock process does not respond; ending the command with SIGKILL/)
  assert.equal((await second.ended).code, 0)
  assertNeverTwo(history(), 2)
  await own.stop()
})

test('the broker is paused: the command is terminated before anybody else can be granted the lock', async () => {
  const own = await broker()
  const { enter, history, entered } = scene('broker-stopped')
  const first = enter(short, 60_000, 'stubborn')
  await entered(1)
  const second = enter([], 50)
  kill(own.pid, 'SIGSTOP')
  const { code, stderr } = await first.ended
  assert.equal(code, 76)
  assert.match(stderr, /the store does not answer; the command will be stopped in .* unless it does\n/)
  assert.match(stderr, /stopping the command with SIGTERM: the lease is being lost/)
  kill(own.pid, 'SIGCONT')
  assert.equal((await second.ended).code, 0)
  assertNeverTwo(history(), 2)
  await own.stop()
})

test('the broker is killed: nobody notices', async () => {
  const own = await broker()
  const { enter, history, entered } = scene('broker-killed')
  const first = enter(short, 5000)
  await entered(1)
  const second = enter([], 50)
  await own.stop()
  assert.equal((await first.ended).code, 0)
  assert.equal((await second.ended).code, 0)
  assertNeverTwo(history(), 2)
})

test('the supervisor is paused: the command continues, and keeps the lock', async () => {
  const { enter, history, entered } = scene('front-stopped')
  const first = enter(short, 5000)
  await entered(1)
  kill(first.pid, 'SIGSTOP')
  await until(() => stateOf(first.pid) === 'T')
  const second = enter([], 50)
  await until(() => history().acquisitions[0]?.releasing !== undefined)
  kill(first.pid, 'SIGCONT')
  assert.equal((await first.ended).code, 0)
  assert.equal((await second.ended).code, 0)
  assertNeverTwo(history(), 2)
})

test('the supervisor is paused as the lock is granted: the lock is released, and the run ends', async () => {
  const name = 'front-stopped-early'
  const { enter, history } = scene(name)
  const { driver } = await target(url).connect()
  const locks = createLocks(driver)
  const lease = await locks.mutex(name).acquire()
  const run = enter([], 50)
  const queued = async () => (await locks.inspect(name)).waiters.length === 1
  await until(queued, { within: 20_000, what: 'the run to be queued' })
  kill(run.pid, 'SIGSTOP')
  await until(() => stateOf(run.pid) === 'T')
  await lease.release()
  await locks.mutex(name).run(() => undefined, { wait: 40_000 })
  kill(run.pid, 'SIGCONT')
  const { code, stderr } = await run.ended
  assert.equal(code, 75)
  assert.match(stderr, /granted while holdfast was stopped, and was released/)
  assert.deepEqual(existsSync(join(histories, `${name}.jsonl`)) ? history().acquisitions : [], [])
  await locks.close()
  await until(() => left().length <= 1)
})

test('the keeper is killed: the front ends the command at once', async () => {
  const own = await broker()
  const { enter, history, entered } = scene('keeper-killed')
  const first = enter([], 60_000, 'stubborn')
  await entered(1)
  kill(await keeperOf(first), 'SIGKILL')
  const { code, stderr } = await first.ended
  assert.equal(code, 76)
  assert.match(stderr, /the lock process was killed/)
  const ended = history().end
  assert.equal((await cli('run', 'keeper-killed', '--no-wait', '--', 'true')).code, 0)
  await until(() => left().length <= 1)
  assert.equal(history().end, ended, 'the command was alive after its run had ended')
  await own.stop()
})

test('front and keeper are both killed: the command does not live on', async () => {
  const { enter, entered } = scene('both-killed')
  const first = enter([], 60_000, 'stubborn')
  await entered(1)
  const keeper = await keeperOf(first)
  kill(first.pid, 'SIGKILL')
  kill(keeper, 'SIGKILL')
  await until(() => left().length === 0, { what: 'the command to end' }).catch(() =>
    assert.fail(describe(left())),
  )
})

test('an operator takes the lock: the command is killed and the loss is reported', async () => {
  const { enter, entered } = scene('taken')
  const first = enter([], 60_000, 'stubborn')
  await entered(1)
  const { code, stdout } = await cli('release', 'taken', '--yes')
  assert.deepEqual([code, stdout], [0, 'released "taken"; its holder was notified\n'])
  const lost = await first.ended
  assert.equal(lost.code, 76)
  assert.match(lost.stderr, /stopping the command with SIGKILL: the lease is lost \(the store ended it\)\n$/)
  await until(() => left().length === 0)
})

test('the check finds two commands that are alive at the same time', async () => {
  const { enter, history, entered } = scene('canary')
  const shared = enter(['--shared'], 60_000)
  await entered(1)
  assert.equal((await enter(['--shared'], 50).ended).code, 0)
  kill(shared.pid, 'SIGTERM')
  assert.equal((await shared.ended).code, 143)
  assert.equal(exclusion(history()).length, 1)
})

test('runs that are killed one after the other, at any moment, never overlap', async () => {
  const { enter, history } = scene('many')
  const runs: Running[] = []
  for (let i = 0; i < 12; i++)
    runs.push(enter(['--kill-after', '100ms', ...short], 150, i % 2 ? 'stubborn' : 'alone'))
  for (const [i, run] of runs.entries()) {
    if (i % 3 !== 2) continue
    await new Promise((resolve) => setTimeout(resolve, 200))
    kill(run.pid, 'SIGKILL')
  }
  await Promise.all(runs.map((run) => run.ended))
  await until(() => left().length === 0, { within: 20_000 }).catch(() => assert.fail(describe(left())))
  assert.deepEqual(exclusion(history()).map(printViolation), [])
  assert.ok(history().acquisitions.length >= 8)
})

test('a lock process without a file descriptor left ends its command as it should, and releases only then', async () => {
  const stubborn = 'trap "" TERM; echo in; while :; do sleep 0.1; done'
  const run = start(
    ...['run', 'starved', '--max-hold', '5s', '--kill-after', '1s', '--', 'sh', '-c', stubborn],
  )
  await until(() => run.stdout() !== '')
  const { code, stderr } = await withoutDescriptors(await keeperOf(run), () => run.ended)
  assert.equal(code, 124, stderr)
  assert.equal(stderr, 'holdfast: stopping the command with SIGTERM: it ran longer than 5s\n')
})

// A test that fails must not be the reason why the next one does.
afterEach(async () => {
  for (const stop of brokers.splice(0)) await stop()
  for (const pid of left()) kill(pid, 'SIGKILL')
  await until(() => left().length === 0)
})
after(close)
after(leakCheck)
