// The caller's file descriptors reach the command at the same numbers, and nobody else.
// Second tier because it shows of run.test.ts what a change of the file descriptors alone can break.
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { callerDescriptors } from '../../src/cli/run/descriptors.js'
import { leakCheck } from '../support/leaks.js'
import { until } from '../support/until.js'
import { bench, kill } from './support/cli.js'
import { terminal } from './support/terminal.js'

const { folder, url, main, script, keeperOf, close } = bench()
const file = (name: string) => join(folder, name)
const read = (name: string) => readFileSync(file(name), 'utf8')

test('what a shell has opened is open in the command, at the same numbers', async () => {
  writeFileSync(file('three'), 'from three\n')
  const { code, stdout, stderr } = await script(`
    exec 3<three 9>nine 200>twohundred
    holdfast run fds -- bash -c 'cat <&3; echo to nine >&9; echo to two >&200; cat /dev/fd/7' 7< <(echo from seven)
  `).ended
  assert.equal(stderr, '')
  assert.equal(code, 0)
  assert.equal(stdout, 'from three\nfrom seven\n')
  assert.equal(read('nine'), 'to nine\n')
  assert.equal(read('twohundred'), 'to two\n')
})

test('the command has what it would have without holdfast, and nothing else', async () => {
  const list = `bash -c 'for fd in /proc/$$/fd/*; do echo "\${fd##*/}"; done'`
  const { stdout } = await script(`
    exec 4<>pair 5<&4 8</dev/null
    ${list}; echo --; holdfast run same -- ${list}
  `).ended
  const [without, within] = stdout.split('--\n')
  assert.match(without ?? '', /^4\n5\n8\n/m)
  assert.equal(within, without)
})

test('both ends of a pipe reach the command when its caller has it, too, as a jobserver of make', async () => {
  writeFileSync(
    file('Makefile'),
    'all:\n\t+@"$(NODE)" "$(MAIN)" run jobs -- $(MAKE) --no-print-directory inner\ninner:\n\t@echo made\n',
  )
  const { stdout, stderr } = await script('make -j2 NODE="$node" MAIN="$main" all').ended
  assert.equal(stderr, '')
  assert.match(stdout, /^made$/m)
})

test('the processes around the command have none of them', async () => {
  const run = script('exec "$0" "$1" run around -- sh -c "echo > around; exec sleep 60" 7>seven 77>sevens')
  await until(() => existsSync(file('around')), { within: 60_000 })
  const keeper = await keeperOf(run)
  const open = readdirSync(`/proc/${keeper}/fd`).flatMap((fd) => {
    try {
      return [readlinkSync(`/proc/${keeper}/fd/${fd}`)]
    } catch {
      return []
    }
  })
  assert.ok(open.length > 3)
  assert.deepEqual(
    open.filter((what) => what.includes('/seven')),
    [],
  )
  kill(run.pid, 'SIGTERM')
  assert.equal((await run.ended).code, 143)
})

test('where the caller leaves no number free, the command is not started', async () => {
  const { code, stderr } = await script('holdfast run full -- touch ran 3>a 4>a 5>a 6>a 7>a 8>a 9>a').ended
  assert.equal(code, 64)
  assert.match(
    stderr,
    /^holdfast: too many of the file descriptors 3 to 9 are open .*needs 1 of them; close some/,
  )
  assert.equal(existsSync(file('ran')), false)
  const higher = await script('holdfast run full -- touch ran 3>a 4>a 5>a 6>a 7>a 9>a 10>a 11>a').ended
  assert.equal(higher.code, 0, higher.stderr)
  assert.ok(existsSync(file('ran')))
})

test('on a terminal, too, where the command is a job', async () => {
  const shell = await terminal(folder, { ...process.env, HOLDFAST_URL: url }, main)
  try {
    shell.type('exec 4>four\n')
    await shell.see('ready> ')
    shell.type(`holdfast run tty -- sh -c 'echo to four >&4; test -t 0 && echo "on a" terminal'\n`)
    await shell.see('on a terminal', 60_000)
    await shell.see('ready> ')
    assert.equal(read('four'), 'to four\n')
  } finally {
    await shell.close()
  }
})

test("Node's own descriptors are distinguished from the caller's by their kinds", () => {
  const open = new Map([
    [0, '/dev/null'],
    [2, 'pipe:[1]'],
    [9, '/run/lock'],
    [3, 'pipe:[2]'],
    [4, 'anon_inode:[eventpoll]'],
    [5, 'pipe:[3]'],
    [6, 'pipe:[3]'],
    [7, 'pipe:[4]'],
    [8, 'pipe:[4]'],
    [10, 'anon_inode:[eventfd]'],
    [11, 'socket:[5]'],
  ])
  assert.deepEqual(callerDescriptors(open, new Set(['pipe:[4]'])), [3, 7, 8, 9, 11])
})

after(close)
after(leakCheck)
