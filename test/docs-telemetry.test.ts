// The table of events in docs/telemetry.md is what the types say: what follows compiles only if it names every field.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { LockEvent, LockEvents } from 'holdfast'
import { channels } from '../src/core/events.js'
import { read } from './support/checkout.js'
import { leakCheck } from './support/leaks.js'

after(leakCheck)

/** Every field of every event, and nothing else. */
type Fields = { readonly [E in LockEvent]: { readonly [F in keyof LockEvents[E]]-?: true } }

const about = { name: true, driver: true, mode: true, note: true } as const
const acquisition = { ...about, acquisition: true } as const
const lease = { ...about, token: true } as const

const fields: Fields = {
  requested: acquisition,
  waiting: { ...acquisition, blocked: true },
  denied: { ...acquisition, waited: true, why: true, error: true },
  granted: { ...acquisition, token: true, waited: true, handedOff: true },
  renewed: { ...lease, remaining: true },
  doubtful: { ...lease, remaining: true, error: true },
  revokeRequested: { ...lease, grace: true, client: true, why: true },
  lost: { ...lease, held: true, why: true, cause: true },
  released: { ...lease, held: true, outcome: true },
  leaked: { ...lease, why: true, held: true, usual: true, stack: true },
  order: { ...about, orders: true },
  storeError: { driver: true, name: true, operation: true, code: true, quarantined: true, error: true },
}

test('docs/telemetry.md lists every event with its fields', () => {
  const rows = new Map(
    [...read('docs/telemetry.md').matchAll(/^\| `(\w+)` \| .+ \| ((?:`\w+` ?)+) \|$/gm)].map(
      ([, event = '', listed = '']) => [event, listed.match(/\w+/g)?.toSorted()],
    ),
  )
  const expected = new Map(Object.entries(fields).map(([event, of]) => [event, Object.keys(of).toSorted()]))
  assert.deepEqual(rows, expected)
})

test('every event has its diagnostics channel', () => {
  assert.deepEqual(Object.keys(channels).toSorted(), Object.keys(fields).toSorted())
  for (const [event, channel] of Object.entries(channels)) assert.equal(channel.name, `holdfast:${event}`)
})
