import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { deadline } from '../../src/core/clock.js'
import { Validity } from '../../src/core/validity.js'
import { leakCheck } from '../support/leaks.js'

after(leakCheck)

test('a shorter renewal counts from when it is sent, and its reply replaces the previous deadline', () => {
  const validity = new Validity()
  const long = validity.sent(0, 30_000)
  validity.answered(long)
  assert.equal(validity.until, deadline(0, 30_000))
  const short = validity.sent(1_000, 1_000)
  assert.equal(validity.until, deadline(1_000, 1_000))
  validity.answered(short)
  assert.equal(validity.until, deadline(1_000, 1_000))
  const longer = validity.sent(1_500, 60_000)
  assert.equal(validity.until, deadline(1_000, 1_000), 'not answered yet')
  validity.answered(longer)
  assert.equal(validity.until, deadline(1_500, 60_000))
})

test('of two that were on their way together either may have come last', () => {
  const validity = new Validity()
  const [short, long] = [validity.sent(0, 1_000), validity.sent(10, 30_000)]
  validity.answered(long)
  validity.answered(short)
  assert.equal(validity.until, deadline(10, 1_000))
  validity.answered(validity.sent(500, 30_000))
  assert.equal(validity.until, deadline(500, 30_000))
})

test('an unanswered one limits the validity of later replies, until it is answered', () => {
  const validity = new Validity()
  const lost = validity.sent(0, 1_000)
  for (let sent = 300; sent < 3_000; sent += 300) {
    validity.answered(validity.sent(sent, 30_000))
    assert.equal(validity.until, deadline(sent, 1_000))
  }
  validity.answered(lost)
  validity.answered(validity.sent(3_000, 30_000))
  assert.equal(validity.until, deadline(3_000, 30_000))
})

test('one that was refused changes nothing', () => {
  const validity = new Validity()
  validity.answered(validity.sent(0, 30_000))
  validity.refused(validity.sent(100, 10))
  assert.equal(validity.until, deadline(0, 30_000))
})

test('the store never lets go before, whatever it carried out, in whatever order', () => {
  let state = 1
  const random = (below: number) => {
    state = (state * 48_271) % 2_147_483_647
    return state % below
  }
  for (let round = 0; round < 3_000; round++) {
    const validity = new Validity()
    let now = 0
    // What it carries out sets its end to now + ttl.
    let end = 5_000
    let told = deadline(0, end)
    const open: {
      sent: number
      ttl: number
      asked: ReturnType<Validity['sent']>
      ran: boolean
      failed: boolean
    }[] = []
    for (let step = 0; step < 40; step++) {
      now += random(400)
      if (now >= end) break
      const one = open[random(open.length + 1)]
      const what = random(4)
      if (one === undefined || what === 0) {
        const ttl = [300, 1_000, 4_000][random(3)] ?? 0
        open.push({ sent: now, ttl, asked: validity.sent(now, ttl), ran: false, failed: false })
      } else if (what === 1 && !one.ran) {
        one.ran = true
        end = now + one.ttl
      } else if (what === 2 && one.ran && !one.failed) {
        open.splice(open.indexOf(one), 1)
        told = deadline(one.sent, one.ttl)
        validity.answered(one.asked)
      } else if (what === 3 && !one.failed && random(4) === 0) {
        one.failed = true
        validity.failed(one.asked)
      }
      const until = Math.min(told, validity.until)
      assert.ok(until <= end, `round ${round}, step ${step}: ${until} > ${end}`)
    }
  }
})

test('renewals that fail for ever cost no more and more', () => {
  const validity = new Validity()
  const began = performance.now()
  for (let sent = 0; sent < 100_000; sent++) {
    validity.failed(validity.sent(sent, 1_000 + (sent % 3)))
    if (sent % 50 === 0) validity.answered(validity.sent(sent, 1_000))
  }
  assert.ok(performance.now() - began < 2_000)
})
