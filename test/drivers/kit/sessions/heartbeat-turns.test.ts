import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { Session, type SessionEntry } from '../../../../src/drivers/kit/sessions/session.js'
import { fakeClock, settle } from '../../../support/fake-clock.js'
import { leakCheck } from '../../../support/leaks.js'

after(leakCheck)

for (const answer of ['kept', 'failed'] as const)
  test(`one heartbeat, ${answer}, for a thousand leases: the event loop turns after every hundred of them`, async () => {
    const clock = fakeClock()
    const turns: (() => void)[] = []
    let heartbeats = 0
    let reply = () => {}
    const send = () => {
      heartbeats++
      return new Promise<{ readonly gone: ReadonlySet<string> }>((resolve, reject) => {
        reply = () => (answer === 'kept' ? resolve({ gone: new Set() }) : reject(new Error('refused')))
      })
    }
    const session = new Session(
      send,
      { ...clock, soon: (fn) => void turns.push(fn) },
      'a session',
      30_000,
      clock.now(),
    )
    let [renewed, failed] = [0, 0]
    for (let i = 0; i < 1_000; i++)
      void session.heartbeat().then(
        () => void renewed++,
        () => void failed++,
      )
    reply()
    for (let turn = 1; turn <= 10; turn++) {
      await settle()
      assert.deepEqual([renewed, failed], answer === 'kept' ? [turn * 100, 0] : [0, turn * 100])
      turns.shift()?.()
    }
    await settle()
    assert.deepEqual([heartbeats, renewed + failed, turns.length], [1, 1_000, 0])
  })

test('a hold that leaves does not examine the others', () => {
  const clock = fakeClock()
  const session = new Session(async () => 'ended', clock, 'a session', 30_000, clock.now())
  let looks = 0
  const entries = Array.from({ length: 100 }, (_, n): SessionEntry => {
    return {
      key: `k${n}`,
      get waits() {
        looks++
        return false
      },
      onGone() {},
      onWake() {},
      onFailure() {},
    }
  })
  for (const entry of entries) session.add(entry)
  for (const entry of entries) session.drop(entry)
  assert.equal(looks, 200, 'each says once on coming and once on leaving that it does not wait')
  assert.equal(session.idle, true)
})
