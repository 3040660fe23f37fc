// Two grants of one process that exclude each other: the store made the newer one only after the older one had ended.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { countLocal } from '../../src/core/local-status.js'
import { settle } from '../support/fake-clock.js'
import { leakCheck } from '../support/leaks.js'
import { script } from '../support/scripted-driver.js'

after(leakCheck)

const fair = { fair: true }

test('a newer grant of the same process shows that an older hold is over, before anybody gets it', async () => {
  const s = script()
  const [first, second] = [s.locks.mutex('m').acquire(fair), s.locks.mutex('m').acquire(fair)]
  await settle()
  s.asked[0]!.grant({ token: 100 })
  const old = await first
  // An operator has removed the first in the store; its notice is late.
  s.asked[1]!.grant({ token: 101 })
  const lease = await second
  assert.deepEqual([old.state, old.isHeld, lease.isHeld], ['lost', false, true])
  await lease.release()
})

test('a newer grant that arrives while an older one is passed on ends the older one, whose late token grants nothing', async () => {
  const s = script()
  let mint: (token: number) => void = () => undefined
  const nextToken = () =>
    new Promise<number>((give) => {
      mint = give
    })
  const [first, heir] = [s.locks.mutex('m').acquire(), s.locks.mutex('m').acquire()]
  await settle()
  const grant = s.asked[0]!.grant({ token: 100, nextToken })
  const lease = await first
  const other = s.locks.mutex('m').acquire(fair)
  await settle()
  await lease.release()
  // The store has minted 101. Then an operator removed the entry, and the next one holds.
  s.asked[1]!.grant({ token: 102 })
  const newer = await other
  mint(101)
  let got = false
  void heir.then(() => {
    got = true
  })
  await settle()
  assert.deepEqual([newer.isHeld, got, grant.releases > 0], [true, false, true])
  await newer.release()
  await settle()
  s.asked[2]!.grant({ token: 103 })
  await (await heir).release()
})

test('a caller that gives up because of such a loss leaves no grant behind', async () => {
  const s = script()
  const stop = new AbortController()
  const first = s.locks.mutex('m').acquire(fair)
  const second = s.locks.mutex('m').acquire({ ...fair, signal: stop.signal })
  await settle()
  s.asked[0]!.grant({ token: 100 })
  const old = await first
  old.signal.addEventListener('abort', () => stop.abort(new Error('all or nothing')))
  const grant = s.asked[1]!.grant({ token: 101 })
  await assert.rejects(second, { message: 'all or nothing' })
  await settle()
  assert.deepEqual([grant.releases, countLocal(s.engine.queue('m')).held], [1, 0])
})

test('a grant that arrives after a newer one is ignored, and the wait continues', async () => {
  const s = script()
  const [first, second] = [s.locks.mutex('m').acquire(fair), s.locks.mutex('m').acquire(fair)]
  await settle()
  s.asked[1]!.grant({ token: 101 })
  const lease = await second
  const late = s.asked[0]!.grant({ token: 100 })
  await settle()
  assert.deepEqual([lease.isHeld, late.releases, s.asked.length], [true, 1, 3])
  await lease.release()
  s.asked[2]!.grant({ token: 102 })
  assert.equal((await first).token, 102)
  await (await first).release()
})
