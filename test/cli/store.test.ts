// `ls`, `inspect` and `release` on the embedded driver.
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { leakCheck } from '../support/leaks.js'
import { until } from '../support/until.js'
import { bench, kill, type Running } from './support/cli.js'

const { folder, cli, start, left, close } = bench()
const held: Running[] = []

/** A run that holds until it is ended. */
async function hold(name: string, ...options: string[]): Promise<Running> {
  const file = join(folder, `${name}-${held.length}`)
  const run = start('run', name, ...options, '--', 'sh', '-c', `: > '${file}'; exec sleep 600`)
  held.push(run)
  await until(() => existsSync(file))
  return run
}

before(async () => {
  await hold('account:42', '--note', 'nightly')
  await hold('account:7', '--shared')
  await hold('pool', '--permits', '2/3')
  held.push(start('run', 'account:42', '--wait', 'forever', '--note', 'me next', '--', 'true'))
  await until(async () => (await cli('inspect', 'account:42', '--json')).stdout.includes('me next'))
})

test('ls shows every lock that is held, by whom, for how long, and how many wait', async () => {
  const { code, stdout, stderr } = await cli('ls')
  assert.deepEqual([code, stderr], [0, ''])
  const [shown = '', where] = stdout.split('\n\n')
  assert.equal(where, `the locks in ${join(folder, 'locks')}\n`)
  const rows = shown.split('\n')
  assert.match(rows[0] ?? '', /^NAME +MODE +HELD BY +FOR +LETS GO IN +TOKEN +NOTE +WAITING$/)
  assert.equal(rows.length, 4)
  const row = (name: string) => rows.find((one) => one.startsWith(name)) ?? ''
  assert.match(row('account:42'), /^account:42 +exclusive +\S+:\d+ +\S+ .* +\d+ +nightly +1$/)
  assert.match(row('account:7'), /^account:7 +shared /)
  assert.match(row('pool'), /^pool +2 of 3 /)
})

test('ls PREFIX shows only names that begin so', async () => {
  const { stdout } = await cli('ls', 'account:', '--json')
  const { locks } = JSON.parse(stdout) as { locks: { name: string }[] }
  assert.deepEqual(locks.map(({ name }) => name).sort(), ['account:42', 'account:7'])
  assert.equal(
    (await cli('ls', 'nothing')).stdout,
    `no lock that begins with "nothing" is held or waited for in ${join(folder, 'locks')}\n`,
  )
})

test('inspect lists holders and waiters in queue order', async () => {
  const { stdout } = await cli('inspect', 'account:42')
  assert.match(
    stdout,
    /^"account:42" is held\n\nMODE +HELD BY .*\nexclusive .* nightly\n\nPLACE +WANTS +WAITING +FOR +NOTE\n1 +exclusive +\S+:\d+ +\S+.* me next\n$/,
  )
})

test('inspect --json is what the library says, with null for no limit', async () => {
  const standing = JSON.parse((await cli('inspect', 'account:42', '--json')).stdout)
  assert.deepEqual(Object.keys(standing).sort(), ['holders', 'lastToken', 'name', 'waiters'])
  const [holder] = standing.holders
  assert.deepEqual(holder.mode, { kind: 'exclusive' })
  assert.equal(holder.token, standing.lastToken)
  assert.equal(holder.note, 'nightly')
  assert.ok(holder.heldFor > 0 && (holder.expiresIn === null || holder.expiresIn > 0))
  assert.equal(standing.waiters[0].note, 'me next')
})

test('a free lock is no error', async () => {
  const { code, stdout } = await cli('inspect', 'unknown')
  assert.deepEqual([code, stdout], [0, '"unknown" is free\n'])
})

test('release asks for no confirmation without a terminal', async () => {
  const { code, stderr } = await cli('release', 'pool')
  assert.equal(code, 64)
  assert.match(stderr, /may still be at work; with no terminal to ask on, it needs --yes\n$/)
  assert.equal(JSON.parse((await cli('inspect', 'pool', '--json')).stdout).holders.length, 1)
})

test('release --yes takes the lock, and the next waiter gets it', async () => {
  const [holder, , , next] = held
  const { code, stdout } = await cli('release', 'account:42', '--yes', '--json')
  assert.equal(code, 0)
  assert.deepEqual(JSON.parse(stdout), { name: 'account:42', released: 1 })
  assert.equal((await next?.ended)?.code, 0)
  assert.equal((await holder?.ended)?.code, 76)
})

test('the release of a free lock says so, and exits with 1', async () => {
  const { code, stdout } = await cli('release', 'unknown', '--yes')
  assert.deepEqual([code, stdout], [1, '"unknown" was not held\n'])
})

test('nothing is left running', async () => {
  for (const run of held) kill(run.pid, 'SIGTERM')
  await Promise.all(held.map((run) => run.ended))
  await until(() => left().length === 0, { what: 'all processes in the folder to end' })
})

after(close)
after(leakCheck)
