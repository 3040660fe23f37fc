// A finding is printed with what all participants did with the name, and with the faults then: enough to explain a run that nobody can repeat.
import '../support/background.js'
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createHistory, type Event, falseBusy } from 'holdfast/verify'
import { printFinding, printFindings } from '../../lab/faults/finding.js'
import { leakCheck } from '../support/leaks.js'
import { event, held } from '../verify/bugs.js'

const fault = (from: number, to: number | undefined, kind: string): Event[] => [
  event(from, 'nemesis', kind, { op: 'fault', phase: 'invoke', kind }),
  ...(to === undefined ? [] : [event(to, 'nemesis', kind, { op: 'fault', phase: 'ok', kind })]),
]
const refused = [
  event(5_030, 'b', 'b:1', { op: 'acquire', phase: 'invoke', mode: 'shared', wait: 0 }),
  event(5_033, 'b', 'b:1', { op: 'acquire', phase: 'fail', kind: 'busy' }),
]

/** What a worker notes beside its acquisitions. */
function note(...facts: Parameters<typeof event>): Event {
  const { attempt: _, ...rest } = event(...facts)
  return rest
}

/** The only finding of a history, as text. */
function printed(...events: readonly Event[]): string {
  const history = createHistory(events)
  const [violation, ...others] = falseBusy(history)
  assert.ok(violation !== undefined && others.length === 0)
  assert.equal(
    printFindings({ history, violations: [violation], complaints: ['late'] }),
    `${printFinding(history, violation)}\n\nlate`,
  )
  return printFinding(history, violation)
}

test('the holder before is shown, and the faults that had ended shortly before or had not ended', () => {
  const text = printed(
    ...held('a', 'a:1', [5_000, 5_001, 5_010], { token: 7, until: 5_500 }),
    ...held('z', 'z:1', [5_000, 5_001, 5_010], { token: 8, name: 'another' }),
    note(5_010, 'a', '', { op: 'acquire', phase: 'info', kind: 'lingers', token: 7, value: 50 }),
    ...fault(100, 200, 'long past'),
    ...fault(3_000, 3_600, 'link: slow'),
    ...fault(5_020, undefined, 'server: pause'),
    note(5_025, 'a', '', { op: 'fault', phase: 'info', kind: 'starved by the machine', value: 240 }),
    ...refused,
  )
  assert.match(text, /-32\.000 ms {2}a acquire ok a:1 token 7 until \+467\.000 ms\n/)
  assert.match(text, /-23\.000 ms {2}a acquire info token 7 value 50 \(lingers\)\n/)
  assert.match(text, /-3\.000 ms {2}b acquire invoke b:1 shared wait 0\n/)
  assert.match(
    text,
    /link: slow, until -1433\.000 ms\n.*server: pause, not ended\n.*starved by the machine: 240/,
  )
  assert.doesNotMatch(text, /long past|z:1/)
})

test('sixty lines are the most, whatever happened', () => {
  const busy = (at: number) =>
    Array.from({ length: 300 }, (_, i) =>
      held('a', `a:${at}:${i}`, [at + i / 100, at + i / 100, at + i / 100]),
    ).flat()
  const faults = Array.from({ length: 50 }, (_, i) => fault(4_000 + i, undefined, `kind ${i}`)).flat()
  const [head, lines = ''] = printed(...busy(5_000), ...busy(5_040), ...faults, ...refused).split(
    /\n\n(?= {2}")/,
  )
  assert.match(head ?? '', /^false-busy/)
  const all = lines.split('\n')
  assert.ok(all.length <= 60, `${all.length} lines`)
  assert.ok(all.some((line) => line.includes('kind 49')) && all.some((line) => line.includes('b:1')))
})

after(leakCheck)
