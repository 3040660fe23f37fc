// Second tier because a million events take half a minute of a processor; the files in checkers/ have each checker for every change.
import '../support/background.js'
import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { check, createHistory, type Event } from 'holdfast/verify'
import { leakCheck } from '../support/leaks.js'
import { simulate } from './simulate.js'

describe('all checkers together', () => {
  it('find nothing in legal histories, with kills, pauses, tries and cancellations in them', () => {
    let events = 0
    for (let seed = 1; seed <= 300; seed++) {
      const history = createHistory(simulate({ seed, steps: 600 }))
      events += history.events.length
      const found = check(history, { liveness: { within: 2_000 } })
      assert.deepEqual(
        found.map((one) => `seed ${seed}: ${one.rule}: ${one.message}`),
        [],
      )
    }
    assert.ok(events > 50_000, `only ${events} events were made`)
  })

  it('judge a million events in seconds', () => {
    const events = longHistory(1_000_000)
    // Processor time, because the machine may be busy with something else.
    const begin = process.cpuUsage()
    const found = check(createHistory(events), { liveness: { within: 10_000 } })
    const took = process.cpuUsage(begin).user / 1000
    assert.deepEqual(found, [])
    assert.ok(took < 20_000, `took ${took} ms of processor time`)
  })

  it('judge a broken lock of a hundred thousand events without growing out of hand', () => {
    const events = longHistory(100_000).map((event) =>
      event.op === 'acquire' && event.phase === 'ok' ? { ...event, token: 1 } : event,
    )
    const found = check(createHistory(events))
    assert.ok(found.length > 10_000)
    assert.equal(found[0]?.histories.length, 2)
  })
})

/** Eight clients that take turns at ten mutexes: invoke, ok, release, ok. */
function longHistory(length: number): Event[] {
  const events: Event[] = []
  for (let i = 0; events.length < length; i++) {
    const pid = i % 8
    const name = `lock ${i % 10}`
    const common = { pid, client: `client ${pid}`, attempt: `${i}`, name }
    const t = i * 1000
    events.push({ ...common, t, op: 'acquire', phase: 'invoke', mode: 'exclusive', fair: true })
    events.push({ ...common, t: t + 100, op: 'acquire', phase: 'ok', token: i + 1, until: t + 30e9 })
    events.push({ ...common, t: t + 9000, op: 'release', phase: 'invoke' })
    events.push({ ...common, t: t + 9050, op: 'release', phase: 'ok', kind: 'released' })
  }
  return events
}

after(leakCheck)
