// The whole program on a pseudo-terminal and in a script.
// Second tier because it needs pseudo-terminals; top/draw.test.ts and top/state.test.ts are the part for every change.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, readlinkSync } from 'node:fs'
import { constants } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { leakCheck } from '../support/leaks.js'
import { until } from '../support/until.js'
import { bench, kill } from './support/cli.js'
import { type Terminal, terminal } from './support/terminal.js'

const { folder, url, main, cli, start, left, close } = bench()
let term: Terminal

before(async () => {
  term = await terminal(folder, { ...process.env, HOLDFAST_URL: url, NO_COLOR: undefined }, main)
  term.type('stty cols 80 rows 24\n')
  await term.see('ready> ')
})

const standing = async (name: string) => JSON.parse((await cli('inspect', name, '--json')).stdout)

test('the live view shows who holds and who waits, filters, looks at one, and forces a release once y is typed', async () => {
  const holder = start('run', 'import', '--note', 'nightly', '--', 'sleep', '60')
  await until(async () => (await standing('import')).holders.length)
  const waiter = start('run', 'import', '--wait', 'forever', '--', 'true')
  await until(async () => (await standing('import')).waiters.length)
  term.type('holdfast top --every 500ms\n')
  await term.see('\x1b[?1049h')
  await term.see(/1 name {2}1 held {2}1 waiting/)
  await term.see(/import +1 +\d+\S* .*nightly/)
  term.type('/nothing\r')
  await term.see('nothing is held or waited for')
  term.type('\x1b')
  await term.see(/import +1 /)
  term.type('\r')
  await term.see(/held +exclusive +\d.*nightly/)
  await term.see(/token \d+/)
  await term.see(/1\. +exclusive +\d/)
  term.type('F')
  await term.see('Release "import"? Its holder may still be at work.')
  term.type('n')
  await term.see('nothing was released')
  term.type('Fy')
  await term.see(/released "import" \(1 held it\)/)
  await Promise.all([holder.ended, waiter.ended])
  assert.equal((await waiter.ended).code, 0)
  assert.equal((await holder.ended).code, 76)
  term.type('qq')
  await term.see('\x1b[?25h\x1b[?1049l')
  await term.see('ready> ')
  term.type('echo "code $?"\n')
  await term.see('code 0')
  await term.see('ready> ')
})

test('a name and a note cannot send escape sequences, a pipe gets no live view', async () => {
  const note = 'red \u202e note'
  const holder = start('run', 'evil', '--note', note, '--', 'sleep', '60')
  await until(async () => (await standing('evil')).holders.length)
  term.type('holdfast top\n')
  await term.see(/evil +0 /)
  term.type('\r')
  await term.see('red \\u{202e} note')
  term.type('qq')
  await term.see('ready> ')
  kill(holder.pid, 'SIGTERM')
  await holder.ended
  const piped = await cli('top')
  assert.deepEqual([piped.code, piped.stdout], [64, ''])
  assert.match(piped.stderr, /top needs a terminal; --once prints one list/)
})

for (const signal of ['SIGTERM', 'SIGHUP'] as const)
  test(`${signal} gives the terminal back and ends it as it ends any program`, async () => {
    const node = [process.execPath, main].map((part) => JSON.stringify(part)).join(' ')
    term.type(`sh -c 'echo "pid $$"; exec "$0" "$@"' ${node} top; echo "code $?"\n`)
    await term.see(/pid \d+/)
    const pid = Number(/.*pid (\d+)/s.exec(term.shown())?.[1])
    await term.see('nothing is held or waited for')
    kill(pid, signal)
    await term.see('\x1b[?25h\x1b[?1049l')
    await term.see(`code ${128 + constants.signals[signal]}`)
    await term.see('ready> ')
  })

test('a terminal that takes nothing any more, as behind a stalled ssh, does not keep it from obeying a signal', async () => {
  const node = [process.execPath, main].map((part) => JSON.stringify(part)).join(' ')
  term.type(`sh -c 'echo "pid $$"; exec "$0" "$@"' ${node} top; echo "code $?"\n`)
  await term.see(/pid \d+/)
  const pid = Number(/.*pid (\d+)/s.exec(term.shown())?.[1])
  await term.see('nothing is held or waited for')
  const tty = readlinkSync(`/proc/${pid}/fd/0`)
  kill(term.pid, 'SIGSTOP')
  // Each size is a frame of its own, and a frame has 4 KB: more than the pseudo-terminal takes.
  for (let i = 0; i < 40; i++) execFileSync('stty', ['-F', tty, 'rows', String(300 + i), 'cols', '200'])
  kill(pid, 'SIGTERM')
  await until(() => !existsSync(`/proc/${pid}`))
  kill(term.pid, 'SIGCONT')
  await term.see('code 143')
  await term.see('ready> ')
  term.type('stty cols 80 rows 24\n')
  await term.see('ready> ')
})

test('a terminal that goes away ends it by SIGHUP, not by an abort', async () => {
  const other = await terminal(folder, { ...process.env, HOLDFAST_URL: url }, main)
  const node = [process.execPath, main].map((part) => JSON.stringify(part)).join(' ')
  other.type(`trap "" HUP; sh -c 'trap : HUP; "$0" "$@"; echo $? > code' ${node} top\n`)
  await other.see('nothing is held or waited for')
  kill(other.pid, 'SIGKILL')
  const code = await until(() => {
    try {
      return readFileSync(join(folder, 'code'), 'utf8')
    } catch {
      return ''
    }
  })
  assert.equal(code, `${128 + constants.signals.SIGHUP}\n`)
  await other.close()
})

test('--once prints a list, with --json for scripts', async () => {
  assert.equal((await cli('top', '--once')).stdout, 'nothing is held or waited for\n')
  const holder = start('run', 'job', '--note', 'mine', '--', 'sleep', '60')
  await until(async () => (await standing('job')).holders.length)
  assert.match(
    (await cli('top', '--once')).stdout,
    /^NAME +WAITING +HELD FOR +HELD BY +NOTE\njob +0 +\S+.* mine\n$/,
  )
  const told = JSON.parse((await cli('top', '--once', '--json')).stdout)
  assert.deepEqual([told.names, told.held, told.waiting], [1, 1, 0])
  assert.deepEqual([told.locks[0].name, told.locks[0].holders[0].note], ['job', 'mine'])
  assert.deepEqual(JSON.parse((await cli('top', 'other', '--once', '--json')).stdout).locks, [])
  kill(holder.pid, 'SIGTERM')
  await holder.ended
})

test('bad options are refused before any request', async () => {
  for (const [args, told] of [
    [['--once', '--sort', 'size'], /Allowed choices are waiting, held, rate, name/],
    [['--every', '1ms', '--once'], /--every must be at least 500ms/],
  ] as const) {
    const { code, stderr } = await cli('top', ...args)
    assert.equal(code, 64)
    assert.match(stderr, told)
  }
})

after(async () => {
  await term.close()
  await until(() => left().length === 0)
  close()
})
after(leakCheck)
