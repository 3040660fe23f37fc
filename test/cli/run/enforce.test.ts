import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { after, afterEach, test } from 'node:test'
import { createLocks, type Lease } from 'holdfast'
import { memory } from 'holdfast/memory'
import { enforce } from '../../../src/cli/run/enforce.js'
import { groupAlive, listMembers, signalGroup } from '../../../src/cli/run/group.js'
import { resolveLimits } from '../../../src/cli/run/policy.js'
import { leakCheck } from '../../support/leaks.js'
import { until } from '../../support/until.js'

const none = { ttl: 3000, killAfter: undefined, minHold: undefined, maxHold: undefined }
const children: ChildProcess[] = []
const locks = createLocks(memory())

/** A command in a group of its own that has said `ready`, and what it says afterwards. */
async function command(script: string): Promise<{ group: number; lines: string[]; child: ChildProcess }> {
  const child = spawn('/bin/sh', ['-c', script], { detached: true, stdio: ['ignore', 'pipe', 'inherit'] })
  children.push(child)
  const lines: string[] = []
  createInterface({ input: child.stdout }).on('line', (line) => lines.push(line))
  await until(() => lines[0] === 'ready')
  return { group: child.pid ?? 0, lines, child }
}

/** A lease that nobody renews; asked for when the command has begun, however long that took. */
const expiring = (name: string): Promise<Lease> =>
  locks.mutex(name).acquire({ ttl: none.ttl, autoRenew: false })

/** As they are for a longer ttl: here a busy machine has time to carry out what is decided. */
const roomy = { ...resolveLimits(none), killAfter: 1_200, margin: 1_000 }

const stubborn = "trap '' TERM; sh -c \"trap '' TERM; echo ready; while :; do sleep 1; done\" & wait; wait"

test('a lease that runs out ends the command and what it started, though they ignore TERM, before it is over', async () => {
  const { group } = await command(stubborn)
  const lease = await expiring('runs-out')
  const told: string[] = []
  const enforcer = enforce(group, lease, roomy, (why, signal) => told.push(`${why} ${signal}`))
  await enforcer.gone
  const left = lease.remaining()
  assert.ok(left > 0, 'the lease was over before the group was gone')
  assert.deepEqual(listMembers(group), [])
  assert.equal(enforcer.stopped, 'lost')
  assert.deepEqual(told, ['lost SIGTERM'])
})

test('a command that obeys TERM is not killed', async () => {
  const { group, child } = await command("trap 'exit 3' TERM; echo ready; while :; do sleep 0.02; done")
  const lease = await expiring('obeys')
  const enforcer = enforce(group, lease, roomy, () => undefined)
  const [code] = await once(child, 'exit')
  await enforcer.gone
  assert.equal(code, 3)
})

test('a lease that is lost for certain kills at once', async () => {
  const lease = await locks.mutex('taken').acquire()
  const { group } = await command(stubborn)
  const told: string[] = []
  const enforcer = enforce(group, lease, resolveLimits(none), (why, signal) => told.push(`${why} ${signal}`))
  await locks.forceRelease('taken')
  await until(() => lease.state === 'lost')
  enforcer.look()
  await enforcer.gone
  assert.deepEqual(told, ['lost SIGKILL'])
})

test('a stopped command is ended, too', async () => {
  const { group, child } = await command("trap 'exit 3' TERM; echo ready; while :; do sleep 0.02; done")
  const lease = await expiring('stopped')
  signalGroup(group, 'SIGSTOP')
  const enforcer = enforce(group, lease, roomy, () => undefined)
  const [code] = await once(child, 'exit')
  await enforcer.gone
  assert.equal(code, 3)
})

test('--max-hold ends a command although its lease is well', async () => {
  const lease = await locks.mutex('long').acquire()
  const { group } = await command(stubborn)
  const terms = resolveLimits({ ...none, maxHold: 100, killAfter: 100 })
  const enforcer = enforce(group, lease, terms, () => undefined)
  await enforcer.gone
  assert.equal(enforcer.stopped, 'max-hold')
  assert.equal(lease.state, 'held')
})

test('a command that ended by itself is no longer enforced', async () => {
  const { group } = await command('echo ready; exec sleep 60')
  const lease = await expiring('ended')
  const enforcer = enforce(group, lease, resolveLimits(none), () => assert.fail('nothing is to be ended'))
  enforcer.release()
  await enforcer.gone
  await until(() => lease.state === 'lost')
  assert.ok(groupAlive(group))
})

test('a group of only zombies counts as gone', async () => {
  // The child of a process that never asks for it, in a group of its own.
  const { lines } = await command('setsid true & echo ready; echo $!; exec sleep 60')
  await until(() => lines[1])
  const zombie = Number(lines[1])
  await until(() => readFileSync(`/proc/${zombie}/stat`, 'utf8').includes(') Z '))
  assert.doesNotThrow(() => process.kill(-zombie, 0), 'the kernel still counts it')
  assert.equal(groupAlive(zombie), false)
})

afterEach(() => {
  for (const child of children.splice(0)) if (child.pid !== undefined) signalGroup(child.pid, 'SIGKILL')
})
after(() => locks.close())
after(leakCheck)
