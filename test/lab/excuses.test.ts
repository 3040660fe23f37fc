// Where a driver's page admits a second holder, the lab also counts apart a token that the first one still handed on, and nothing else.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createHistory, type Event } from 'holdfast/verify'
import { clockAhead } from '../../lab/faults/database-servers.js'
import { endsSessions } from '../../lab/faults/sessions.js'
import type { Fault } from '../../lab/faults/store.js'
import { evaluateRun } from '../../lab/faults/verdict.js'
import { leakCheck } from '../support/leaks.js'
import { event, held } from '../verify/bugs.js'

const server = {} as Parameters<typeof clockAhead>[0]
const ttl = 500
const page = 'docs/drivers/any.md'
const connections = ['server: kill and start again', 'connections: black hole', 'link: slow'].map((kind) =>
  endsSessions({ kind, subjects: ['server 0'], begin: () => undefined }, ttl, page),
)

/** `a` keeps what it held with token 7 past the fault, `b` is granted 9, and a second task of `a` inherits 8. */
function judged(fault: Fault, at: number) {
  const { kind } = fault
  const events: Event[] = [
    ...held('a', 'a:1', [0, 1, 450], { token: 7 }),
    ...held('b', 'b:1', [399, 400, 500], { token: 9 }),
    ...held('a', 'a:2', [430, 451, 470], { token: 8 }),
    event(at, 'nemesis', 'fault', { op: 'fault', phase: 'invoke', kind }),
    event(at + 1, 'nemesis', 'fault', { op: 'fault', phase: 'ok', kind }),
  ]
  const history = createHistory(events.sort((a, b) => a.t - b.t))
  const { violations, excused } = evaluateRun(history, [fault], { settles: 10_000, check: {}, ttl }, [])
  const rules = (of: readonly { readonly rule: string }[]) => [...new Set(of.map(({ rule }) => rule))].sort()
  return { violations: rules(violations), excused: rules(excused.map(({ violation }) => violation)) }
}

const both = ['exclusion', 'tokens']

for (const fault of [clockAhead(server, ttl, page), ...connections.slice(0, 2)]) {
  test(`${fault.kind}: a second holder is counted apart, and so is a token handed on beside it`, () => {
    assert.deepEqual(judged(fault, 390), { violations: [], excused: both })
  })

  test(`${fault.kind}: both are violations where it came afterwards`, () => {
    assert.deepEqual(judged(fault, 480), { violations: both, excused: [] })
  })
}

test('a fault that ends no connection excuses neither', () => {
  const [, , slow] = connections
  assert.ok(slow !== undefined)
  assert.deepEqual(judged(slow, 390), { violations: both, excused: [] })
})

after(leakCheck)
