// The embedded default under kill -9: holders, waiters and the process that runs the broker, again and again, judged by
// exact checkers over what every process wrote down. And the proof that this harness would see a broken lock.
// Second tier because it starts and kills hundreds of processes; local-crash.test.ts is the part for every change.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { local } from 'holdfast/local'
import { check, exclusion, printViolation, tokens, witness } from 'holdfast/verify'
import { brokerOf } from '../drivers/local/processes.js'
import { leakCheck } from '../support/leaks.js'
import { lockFile } from './kill/broken-locks.js'
import { killedWhile, killLoop } from './kill/kill-loop.js'

const rounds = Number(process.env['HOLDFAST_KILL_ROUNDS'] ?? 200)
const scratch = mkdtempSync(join(tmpdir(), 'holdfast-kill-'))
after(() => rmSync(scratch, { recursive: true }))
after(leakCheck)

const folderFor = (name: string) => {
  const folder = join(scratch, name)
  mkdirSync(folder)
  return folder
}
/** Nobody, while the journal is not there yet or just being written again. */
function hostOf(directory: string): number | undefined {
  try {
    return brokerOf(directory)
  } catch {
    return undefined
  }
}

const broken = new URL('./kill/broken-locks.js', import.meta.url).href

describe('the embedded driver under kill -9', () => {
  it(`keeps exclusion, token order and every update over ${rounds} rounds`, async (test) => {
    const directory = join(scratch, 'broker')
    const childClient = {
      module: import.meta.resolve('holdfast/local'),
      export: 'local',
      args: [{ directory }],
    }
    const { history, kills } = await killLoop({
      childClient,
      make: () => local({ directory }),
      hostOf: () => hostOf(directory),
      folder: folderFor('local'),
      rounds,
    })
    // Order is not promised while the broker changes hands: a client that asks again may be served before one that has not come back yet.
    const violations = check(history, { liveness: { within: 5_000 }, falseBusy: { lag: 5_000 }, fifo: false })
    assert.equal(violations.slice(0, 3).map(printViolation).join('\n\n'), '')
    const seen = killedWhile(history)
    const granted = history.acquisitions.filter((one) => one.granted !== undefined).length
    test.diagnostic(JSON.stringify({ rounds, kills, seen, granted, events: history.events.length }))
    assert.equal(kills.holder + kills.waiter + kills.host + kills.anyone, rounds)
    assert.ok(kills.host >= rounds / 10, `the broker was killed ${kills.host} times only`)
    assert.ok(seen.holding >= rounds / 10, `${seen.holding} were killed while holding`)
    assert.ok(seen.waiting >= rounds / 10, `${seen.waiting} were killed while waiting`)
    assert.ok(granted >= rounds, `${granted} acquisitions only`)
  })
})

describe('the kill loop sees', () => {
  it('a lock file that counts as stale too early', async () => {
    const folder = folderFor('lock-file')
    const childClient = { module: broken, export: 'lockFile', args: [folder, 6] }
    const { history } = await killLoop({ childClient, make: () => lockFile(folder, 6), folder, rounds: 12 })
    const found = exclusion(history)
    assert.ok(found.length > 0, 'two holders went unseen')
    assert.equal(found[0]?.histories.length, 2)
    assert.ok(witness(history).length > 0, 'lost updates went unseen')
  })

  it('tokens that repeat', async () => {
    const directory = join(scratch, 'seconds')
    const folder = folderFor('seconds-history')
    const childClient = { module: broken, export: 'secondsAsToken', args: [directory] }
    const { history } = await killLoop({ childClient, make: () => local({ directory }), folder, rounds: 6 })
    assert.ok(tokens(history).length > 0, 'repeated tokens went unseen')
    assert.deepEqual(exclusion(history), [])
  })
})
