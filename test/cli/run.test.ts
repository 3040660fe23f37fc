// `holdfast run` as a user's shell sees it: real processes over the embedded driver.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { createLocks } from 'holdfast'
import { local } from 'holdfast/local'
import { leakCheck } from '../support/leaks.js'
import { until } from '../support/until.js'
import { bench, describe, kill, stateOf } from './support/cli.js'

const { folder, cli, start, left, close } = bench()
const file = (name: string) => join(folder, name)
const read = (name: string) => readFileSync(file(name), 'utf8')
const sh = (script: string) => ['--', 'sh', '-c', script]

test('the command gets the name and the token, and its exit code is returned', async () => {
  const { code, stdout, stderr } = await cli(
    'run',
    'env',
    ...sh('echo "$HOLDFAST_NAME $HOLDFAST_TOKEN"; exit 7'),
  )
  assert.equal(code, 7)
  assert.match(stdout, /^env \d+\n$/)
  assert.equal(stderr, '')
})

test('an unreachable store is reported with its reason, during the wait and after it', async () => {
  const { code, stderr } = await cli(
    'run',
    'x',
    '--wait',
    '4s',
    '--on',
    'etcd://127.0.0.1:1',
    ...sh('touch ran'),
  )
  assert.equal(code, 69)
  assert.match(
    stderr,
    /^holdfast: waiting .* for "x"; the store cannot be asked: 127\.0\.0\.1:1 ECONNREFUSED\nholdfast: the/,
  )
  assert.match(
    stderr,
    /\nholdfast: the store cannot be reached: 127\.0\.0\.1:1 ECONNREFUSED \(etcd:\/\/127\.0\.0\.1:1\)\n$/,
  )
  assert.throws(() => read('ran'), { code: 'ENOENT' })
})

test('tokens grow from run to run', async () => {
  const tokens = []
  for (let i = 0; i < 3; i++)
    tokens.push(Number((await cli('run', 'grow', ...sh('echo $HOLDFAST_TOKEN'))).stdout))
  const [a = 0, b = 0, c = 0] = tokens
  assert.ok(a > 0 && a < b && b < c, `${tokens}`)
})

test('a command ended by a signal gives 128 + n', async () => {
  assert.equal((await cli('run', 'sig', ...sh('kill -TERM $$'))).code, 143)
  assert.equal((await cli('run', 'sig', ...sh('kill -KILL $$'))).code, 137)
})

test('arguments reach the command as they are', async () => {
  const odd = ['a b', '', '$HOME', '*', '--on', "it's", '"', 'ä\n2']
  const { stdout } = await cli(
    'run',
    'args',
    '--',
    'node',
    '-p',
    'JSON.stringify(process.argv.slice(1))',
    '--',
    ...odd,
  )
  assert.deepEqual(JSON.parse(stdout), odd)
})

test('variables whose names a shell could not use reach the command, too', async () => {
  process.env['odd.name-1'] = 'kept'
  try {
    // The other bench's environment was taken before.
    const another = bench()
    const { stdout } = await another.cli('run', 'odd', '--', 'env').finally(another.close)
    assert.match(stdout, /^odd\.name-1=kept$/m)
  } finally {
    delete process.env['odd.name-1']
  }
})

test('a second run waits for the first, and they never overlap', async () => {
  const job = sh(`echo in >> ${file('order')}; sleep 0.2; echo out >> ${file('order')}`)
  const runs = [1, 2, 3, 4].map(() => cli('run', 'order', '--wait', 'forever', ...job))
  for (const { code } of await Promise.all(runs)) assert.equal(code, 0)
  assert.equal(read('order'), 'in\nout\n'.repeat(4))
})

test('--no-wait ends with the conflict code, says who holds it with what note, and starts nothing', async () => {
  const holder = start(
    'run',
    'busy',
    '--note',
    'nightly import',
    ...sh(`echo > ${file('busy')}; exec sleep 60`),
  )
  await until(() => stateOf(holder.pid) && left().length > 0 && exists('busy'))
  const refused = await cli('run', 'busy', '--no-wait', ...sh(`echo > ${file('never')}`))
  assert.equal(refused.code, 75)
  assert.match(
    refused.stderr,
    /^holdfast: "busy" is not free; held for \d+m?s by .+:\d+ \("nightly import"\); the command was not started\n$/,
  )
  const own = await cli('run', 'busy', '--no-wait', '--conflict-exit-code', '1', ...sh('true'))
  assert.equal(own.code, 1)
  const late = await cli('run', 'busy', '--wait', '3s', ...sh('true'))
  assert.equal(late.code, 75)
  assert.match(late.stderr, /"busy" was not free within \d+m?s; held for/)
  assert.equal(exists('never'), false)
  kill(holder.pid, 'SIGTERM')
  assert.equal((await holder.ended).code, 143)
})

test('off a terminal a wait is reported once, after a second', async () => {
  const holder = start('run', 'told', ...sh('exec sleep 60'))
  await until(async () => (await cli('inspect', 'told', '--json')).stdout.includes('attempt'))
  const waiter = start('run', 'told', '--wait', 'forever', ...sh('true'))
  await until(() => waiter.stderr() !== '')
  kill(holder.pid, 'SIGTERM')
  const { code, stderr } = await waiter.ended
  assert.equal(code, 0)
  assert.match(stderr, /^holdfast: waiting \d+s for "told", 1st in the queue; held for \d+s by .+:\d+\n$/)
  await holder.ended
})

test('--shared runs side by side, and keeps a writer out', async () => {
  const readers = ['a', 'b'].map((name) =>
    start('run', 'rw', '--shared', ...sh(`echo > ${file(`r${name}`)}; exec sleep 60`)),
  )
  await until(() => exists('ra') && exists('rb'))
  assert.equal((await cli('run', 'rw', '--no-wait', ...sh('true'))).code, 75)
  for (const reader of readers) kill(reader.pid, 'SIGTERM')
  for (const reader of readers) await reader.ended
  assert.equal((await cli('run', 'rw', '--no-wait', ...sh('true'))).code, 0)
})

test('--permits n/N admits as many as fit', async () => {
  const two = start('run', 'sem', '--permits', '2/3', ...sh(`echo > ${file('two')}; exec sleep 60`))
  await until(() => exists('two'))
  assert.equal((await cli('run', 'sem', '--permits', '1/3', '--no-wait', ...sh('true'))).code, 0)
  assert.equal((await cli('run', 'sem', '--permits', '2/3', '--no-wait', ...sh('true'))).code, 75)
  const other = await cli('run', 'sem', '--permits', '1/4', '--no-wait', ...sh('true'))
  assert.equal(other.code, 64)
  assert.match(other.stderr, /semaphore "sem" has 3 permits/)
  kill(two.pid, 'SIGTERM')
  await two.ended
})

test('--min-hold keeps the lock after the command has ended, and a signal ends that', async () => {
  const begun = performance.now()
  const { code } = await cli('run', 'min', '--min-hold', '900ms', ...sh('exit 3'))
  assert.equal(code, 3)
  assert.ok(performance.now() - begun >= 900)
  const long = start('run', 'min', '--min-hold', '60s', ...sh(`echo > ${file('min')}; exit 3`))
  await until(() => exists('min'))
  assert.equal((await cli('run', 'min', '--no-wait', ...sh('true'))).code, 75)
  kill(long.pid, 'SIGTERM')
  assert.equal((await long.ended).code, 3)
  assert.equal((await cli('run', 'min', '--no-wait', ...sh('true'))).code, 0)
})

test('--no-wait --min-hold ends with its command, and others skip until the time has passed, as jobs of the library do', async () => {
  const locks = createLocks(local({ directory: join(folder, 'locks') }))
  try {
    const ran = await cli('run', 'job', '--no-wait', '--min-hold', '60s', ...sh('exit 3'))
    assert.equal(ran.code, 3)
    assert.deepEqual(await locks.job('job').run(() => 1), { ran: false, why: 'too-soon' })
    const again = await cli('run', 'job', '--no-wait', ...sh('true'))
    assert.equal(again.code, 75)
    assert.match(again.stderr, /"job" was run less than its --min-hold ago; the command was not started/)
    assert.equal((await cli('run', 'job', ...sh('true'))).code, 0, 'who waits is no job')

    await locks.job('their job', { minHold: 60_000 }).run(() => 1)
    assert.equal((await cli('run', 'their job', '--no-wait', ...sh('true'))).code, 75)

    const long = start('run', 'long job', '--no-wait', ...sh(`echo > ${file('long')}; exec sleep 60`))
    await until(() => exists('long'))
    assert.deepEqual(await locks.job('long job').run(() => 1), { ran: false, why: 'held' })
    kill(long.pid, 'SIGTERM')
    await long.ended
    assert.equal((await locks.job('long job').run(() => 1)).ran, true)
  } finally {
    await locks.close()
  }
})

test('--max-hold ends a stubborn command with TERM, then KILL, and says so', async () => {
  const { code, stderr } = await cli(
    ...['run', 'max', '--max-hold', '300ms', '--kill-after', '200ms'],
    ...sh("trap '' TERM; while :; do sleep 0.05; done"),
  )
  assert.equal(code, 124)
  assert.match(stderr, /^holdfast: stopping the command with SIGTERM: it ran longer than 300ms\n$/)
})

test('a command that leaves something in the background is reported', async () => {
  const { code, stderr } = await cli('run', 'bg', ...sh('sleep 600 >/dev/null 2>&1 & exit 0'))
  assert.equal(code, 0)
  const told = /the command left processes running \(group (\d+)\); they do not hold the lock/.exec(stderr)
  assert.ok(told, stderr)
  kill(-Number(told[1]), 'SIGKILL')
})

test('--json reports events, one object per line', async () => {
  const { stderr } = await cli('run', 'events', '--json', ...sh('exit 4'))
  const events = stderr
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  assert.deepEqual(
    events.map(({ event, name }) => `${event} ${name}`),
    ['granted events', 'ended events'],
  )
  assert.equal(typeof events[0].token, 'number')
  assert.deepEqual(
    { ...events[1] },
    { event: 'ended', name: 'events', code: 4, ran: true, outcome: 'released' },
  )
  const holder = start('run', 'events', ...sh(`echo > ${file('events')}; exec sleep 60`))
  await until(() => exists('events'))
  const busy = JSON.parse((await cli('run', 'events', '--no-wait', '--json', ...sh('true'))).stderr)
  assert.equal(busy.event, 'busy')
  assert.match(busy.holder.client, /:\d+$/)
  kill(holder.pid, 'SIGTERM')
  await holder.ended
})

test('nothing is left running', async () => {
  await until(() => left().length === 0, { what: 'all processes in the folder to end' }).catch(() =>
    assert.fail(describe(left())),
  )
})

function exists(name: string): boolean {
  try {
    read(name)
    return true
  } catch {
    return false
  }
}

after(close)
after(leakCheck)

test('waiting for a store that is not there, as JSON: code, reason and address, about once a second', async () => {
  const on = ['--on', 'mysql://u@127.0.0.1:1/d']
  const { code, stderr } = await cli('run', 'x', '--json', '--wait', '3s', ...on, ...sh('true'))
  assert.equal(code, 69)
  const told = stderr
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as { event: string; error?: object })
    .filter(({ event }) => event === 'waiting')
  assert.ok(told.length >= 1 && told.length <= 4, stderr)
  for (const { error } of told) {
    const { message, ...facts } = error as { message: string }
    assert.match(message, /ECONNREFUSED/)
    assert.deepEqual(facts, { code: 'BACKEND', reason: 'ECONNREFUSED', address: '127.0.0.1:1' })
  }
})
