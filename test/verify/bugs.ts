/** Puts a bug into legal histories and counts in how many a checker sees it. */
import assert from 'node:assert/strict'
import {
  type Acquisition,
  createHistory,
  type Event,
  type History,
  type Rule,
  type Violation,
} from 'holdfast/verify'
import { randomFrom, type SimulationOptions, simulate } from './simulate.js'

/** An event as a test writes it: only what matters. */
export function event(
  t: number,
  client: string,
  attempt: string,
  facts: Pick<Event, 'op' | 'phase'> & Partial<Event>,
): Event {
  return {
    t: t * 1e6,
    pid: [...client].reduce((sum, c) => sum + c.charCodeAt(0), 0),
    client,
    attempt,
    name: 'x',
    ...facts,
  }
}

/** A whole acquisition: called, granted and released at the given milliseconds. */
export function held(
  client: string,
  attempt: string,
  at: readonly [number, number, number],
  facts: Partial<Event> = {},
): Event[] {
  const [asked, granted, released] = at
  const { token, until, ...ask } = facts
  const told = { ...(token !== undefined && { token }), ...(until !== undefined && { until: until * 1e6 }) }
  const name = ask.name ?? 'x'
  return [
    event(asked, client, attempt, { op: 'acquire', phase: 'invoke', mode: 'exclusive', ...ask }),
    event(granted, client, attempt, { op: 'acquire', phase: 'ok', name, ...told }),
    event(released, client, attempt, { op: 'release', phase: 'invoke', name }),
    event(released + 0.1, client, attempt, { op: 'release', phase: 'ok', name, kind: 'released' }),
  ]
}

/** Returns the events with a bug in them, or `undefined` when this history has no place for it. */
export type Bug = (history: History, random: () => number) => readonly Event[] | undefined

export interface Hunt {
  readonly check: (history: History) => Violation[]
  readonly rule: Rule
  readonly bug: Bug
  readonly histories?: number
  readonly simulation?: Partial<SimulationOptions>
}

/** Every history the bug fits into must be clean before and caught after. */
export function hunt({ check, rule, bug, histories = 60, simulation = {} }: Hunt): void {
  let hidden = 0
  for (let seed = 1; seed <= histories; seed++) {
    const clean = createHistory(simulate({ seed, steps: 500, ...simulation }))
    assert.deepEqual(check(clean), [], `seed ${seed} is clean`)
    const buggy = bug(clean, randomFrom(seed))
    if (buggy === undefined) continue
    hidden++
    const found = check(createHistory(buggy))
    assert.ok(
      found.some((one) => one.rule === rule),
      `seed ${seed}: the bug was not seen`,
    )
  }
  assert.ok(hidden >= histories / 3, `the bug fits into ${hidden} of ${histories} histories only`)
}

export function pick<T>(items: readonly T[], random: () => number): T | undefined {
  return items[Math.floor(random() * items.length)]
}

/** Changes the events of one acquisition; `undefined` takes an event out. */
export function edit(
  history: History,
  attempt: string,
  change: (event: Event) => Event | undefined,
): Event[] {
  return history.events.flatMap((event) => (event.attempt === attempt ? (change(event) ?? []) : [event]))
}

/** As if this acquisition had been held until `end`: nothing before that says it was over. */
export function prolong(history: History, one: Acquisition, end: number): Event[] {
  return edit(history, one.attempt, (event) => {
    if (event.op === 'release' || event.op === 'lost' || event.op === 'downgrade')
      return { ...event, t: Math.max(event.t, end) }
    return event.until === undefined ? event : { ...event, until: Math.max(event.until, end) }
  })
}

/** Neighbours in the order of tokens, of one name and the given kinds. */
export function neighbours(
  history: History,
  fits: (a: Acquisition, b: Acquisition) => boolean,
): [Acquisition, Acquisition][] {
  const granted = history.acquisitions.filter((one) => one.granted !== undefined && one.died === undefined)
  granted.sort((a, b) => (a.token ?? 0) - (b.token ?? 0))
  const last = new Map<string, Acquisition>()
  const pairs: [Acquisition, Acquisition][] = []
  for (const one of granted) {
    const before = last.get(one.name)
    if (before !== undefined && fits(before, one)) pairs.push([before, one])
    last.set(one.name, one)
  }
  return pairs
}
