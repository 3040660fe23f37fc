// Signals to `holdfast run` without a terminal, and to its lock process.
// Second tier because it starts and ends processes for a third of a minute; run.test.ts is the part for every change.
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { createLocks } from 'holdfast'
import { target } from '../../src/cli/connect.js'
import { leakCheck } from '../support/leaks.js'
import { until } from '../support/until.js'
import { bench, kill, stateOf } from './support/cli.js'

const { folder, url, cli, start, keeperOf, left, close } = bench()
const store = await target(url).connect()
const locks = createLocks(store.driver)
after(async () => {
  await locks.close()
  await store.close()
})
const queueOf = async (name: string) => (await locks.inspect(name)).waiters.length

const file = (name: string) => join(folder, name)
const read = (name: string) => (existsSync(file(name)) ? readFileSync(file(name), 'utf8') : '')
/** Says its process id and every signal that it gets; ends on TERM with 9. */
const listener = (name: string) => [
  '--',
  'sh',
  '-c',
  `for s in INT HUP QUIT USR1 USR2 WINCH; do trap "echo $s >> ${file(name)}" $s; done
   trap 'exit 9' TERM
   echo pid $$ >> ${file(name)}
   while :; do sleep 0.02; done`,
]

test('signals are given on to the command, which decides what becomes of them', async () => {
  const run = start('run', 'given-on', ...listener('given-on'))
  await until(() => read('given-on').startsWith('pid'))
  for (const signal of ['INT', 'HUP', 'QUIT', 'USR1', 'USR2', 'WINCH']) {
    kill(run.pid, `SIG${signal}` as NodeJS.Signals)
    await until(() => read('given-on').includes(`\n${signal}\n`), { what: `${signal} to arrive` })
  }
  assert.equal(read('given-on').split('\n').length, 8, 'each once')
  kill(run.pid, 'SIGTERM')
  assert.equal((await run.ended).code, 9)
})

test('signals reach the whole group', async () => {
  // Its own trap first: the child says that both are set.
  const script = `trap 'wait; exit 0' USR1; (trap 'echo child >> ${file('group')}; exit' USR1; echo ready >> ${file('group')}; while :; do sleep 0.02; done) & while :; do sleep 0.02; done`
  const run = start('run', 'group', '--', 'sh', '-c', script)
  await until(() => read('group') === 'ready\n')
  kill(run.pid, 'SIGUSR1')
  assert.equal((await run.ended).code, 0)
  assert.equal(read('group'), 'ready\nchild\n')
})

test('the command is stopped and continued with its run, and keeps its lock for longer than a ttl', async () => {
  const run = start('run', 'stops', '--ttl', '3s', ...listener('stops'))
  await until(() => read('stops').startsWith('pid'))
  const command = Number(read('stops').slice(4))
  kill(run.pid, 'SIGTSTP')
  // D: a shell whose child was stopped between fork and exec cannot run either.
  await until(() => stateOf(run.pid) === 'T' && ['T', 'D'].includes(stateOf(command)))
  const { code } = await cli('run', 'stops', '--wait', '3500ms', '--', 'true')
  assert.equal(code, 75)
  kill(run.pid, 'SIGCONT')
  await until(() => ['S', 'R'].includes(stateOf(command)))
  kill(run.pid, 'SIGTERM')
  assert.equal((await run.ended).code, 9)
})

test('a signal to the process that `inspect` shows reaches the command like one to the run', async () => {
  const run = start('run', 'keeper', ...listener('keeper'))
  await until(() => read('keeper').startsWith('pid'))
  const { holders } = JSON.parse((await cli('inspect', 'keeper', '--json')).stdout)
  const keeper = await keeperOf(run)
  assert.equal(holders[0].client.split(':')[1], `${keeper}`)
  kill(keeper, 'SIGTERM')
  assert.equal((await run.ended).code, 9)
})

for (const [signal, code] of [
  ['SIGTERM', 143],
  ['SIGINT', 130],
  ['SIGHUP', 129],
] as const) {
  test(`${signal} ends a wait with ${code} and leaves no trace in the queue`, async () => {
    const name = `wait-${signal}`
    const holder = start('run', name, ...listener(name))
    await until(() => read(name).startsWith('pid'))
    const waiter = start('run', name, '--wait', 'forever', '--json', '--', 'true')
    await until(() => waiter.stderr().includes('"waiting"'))
    kill(waiter.pid, signal)
    assert.equal((await waiter.ended).code, code)
    const { holders, waiters } = JSON.parse((await cli('inspect', name, '--json')).stdout)
    assert.deepEqual([holders.length, waiters.length], [1, 0])
    kill(holder.pid, 'SIGTERM')
    await holder.ended
  })
}

for (const others of [[], ['suspended-too']]) {
  const names = ['suspended', ...others]
  test(`a run of ${names.length} that is suspended while it waits leaves the queue, and waits anew once it is continued`, async () => {
    const all = locks.all(names.map((name) => locks.mutex(name)))
    const first = await all.acquire({ wait: 60_000 })
    const waiter = start('run', ...names, '--wait', 'forever', '--json', '--', 'echo', 'ran')
    await until(async () => (await queueOf('suspended')) === 1)
    kill(waiter.pid, 'SIGTSTP')
    await until(() => stateOf(waiter.pid) === 'T')
    await until(async () => (await queueOf('suspended')) === 0)
    await first.release()
    const second = await all.acquire({ wait: 60_000 })
    kill(waiter.pid, 'SIGCONT')
    await until(async () => (await queueOf('suspended')) === 1)
    await second.release()
    const { code, stdout } = await waiter.ended
    assert.deepEqual([code, stdout], [0, 'ran\n'])
  })
}

test('a signal that ends a suspended run is answered once it is continued', async () => {
  const lease = await locks.mutex('ended').acquire({ wait: 60_000 })
  const waiter = start('run', 'ended', '--wait', 'forever', '--json', '--', 'true')
  await until(async () => (await queueOf('ended')) === 1)
  kill(waiter.pid, 'SIGTSTP')
  await until(() => stateOf(waiter.pid) === 'T')
  kill(waiter.pid, 'SIGTERM')
  kill(waiter.pid, 'SIGCONT')
  assert.equal((await waiter.ended).code, 143)
  assert.equal(await queueOf('ended'), 0)
  await lease.release()
})

test('a run that is killed while it waits leaves no trace in the queue', async () => {
  const holder = start('run', 'killed', ...listener('killed'))
  await until(() => read('killed').startsWith('pid'))
  const waiter = start('run', 'killed', '--wait', 'forever', '--json', '--', 'true')
  await until(() => waiter.stderr().includes('"waiting"'))
  kill(waiter.pid, 'SIGKILL')
  await until(async () => JSON.parse((await cli('inspect', 'killed', '--json')).stdout).waiters.length === 0)
  kill(holder.pid, 'SIGTERM')
  await holder.ended
})

/** Whether the process takes signals: Node has a handler of its own for INT and TERM, and none for USR2. */
const takesSignals = (pid: number) =>
  // The mask is in hexadecimal; signal 12 is its twelfth bit.
  /^SigCgt:\s*\w*[89a-f]\w\w$/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))

test('a signal that comes while the lock process still starts ends the run as any other', async () => {
  for (let i = 0; i < 3; i++) {
    const run = start('run', 'starting', '--', 'sleep', '60')
    await until(() => takesSignals(run.pid))
    kill(run.pid, 'SIGINT')
    const { code, stderr } = await run.ended
    assert.deepEqual([code, stderr], [130, ''])
  }
})

test('nothing is left running', async () => {
  await until(() => left().length === 0, { what: 'all processes in the folder to end' })
})

after(close)
after(leakCheck)
