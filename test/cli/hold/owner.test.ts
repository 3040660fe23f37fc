// Which process counts as ended: not one whose first thread has ended while others run, but a zombie.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { after, type TestContext, test } from 'node:test'
import { hasEnded, parseOwner } from '../../../src/cli/hold/owner.js'
import { endGroup, groupAlive } from '../../../src/cli/run/group.js'
import { withoutDescriptors } from '../../support/descriptors.js'
import { leakCheck } from '../../support/leaks.js'
import { until } from '../../support/until.js'

/** Starts a leader of a process group, and ends it with the test. */
function leader(t: TestContext, command: string, ...args: string[]): ChildProcess & { readonly pid: number } {
  const child = spawn(command, args, { detached: true, stdio: ['ignore', 'pipe', 'inherit'] })
  const exited = once(child, 'exit')
  t.after(async () => {
    child.kill('SIGKILL')
    await exited
  })
  assert.ok(child.pid !== undefined)
  return child as ChildProcess & { readonly pid: number }
}

const stateOf = (pid: number) => /\) (\w)/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1]

const linux = { skip: process.platform !== 'linux' && '/proc is of Linux' }

test('a process whose first thread has ended lives as long as another of its threads', linux, async (t) => {
  const endsFirstThread = `
    use threads;
    threads->create(sub { sleep 1000 })->detach;
    syscall(${process.arch === 'arm64' ? 93 : 60}, 0);`
  const { pid } = leader(t, 'perl', '-e', endsFirstThread)
  await until(() => stateOf(pid) === 'Z')
  const owner = parseOwner(String(pid), 'nightly')
  assert.equal(hasEnded(owner), false)
  process.kill(pid, 'SIGKILL')
  await until(() => hasEnded(owner))
})

test('a process that has ended, and that its parent has not waited for, has ended', linux, async (t) => {
  const { stdout } = leader(t, 'sh', '-c', 'setsid sleep 1000 & echo $!; exec sleep 1000')
  const pid = Number((await once(stdout!, 'data'))[0])
  await until(() => ownerOfGroup(pid))
  const owner = parseOwner(String(pid), 'nightly')
  assert.equal(hasEnded(owner), false)
  process.kill(pid, 'SIGKILL')
  await until(() => stateOf(pid) === 'Z')
  assert.equal(hasEnded(owner), true)
})

test('a process has not ended because no file descriptor is left to look for it', linux, async (t) => {
  const { pid } = leader(t, 'sleep', '1000')
  const owner = parseOwner(String(pid), 'nightly')
  await withoutDescriptors(process.pid, () => {
    assert.equal(hasEnded(owner), false)
    assert.throws(() => parseOwner(String(pid), 'nightly'), {
      message: /cannot find out whether this process runs: EMFILE/,
    })
  })
  assert.equal(hasEnded(owner), false)
})

test('nor has a process group', linux, async (t) => {
  const { pid } = leader(t, 'sleep', '1000')
  await withoutDescriptors(process.pid, () => assert.equal(groupAlive(pid), true))
  await endGroup(pid)
  await until(() => !groupAlive(pid))
})

/** Does it lead a process group? */
const ownerOfGroup = (pid: number) =>
  readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ')[2] === String(pid)

after(leakCheck)
