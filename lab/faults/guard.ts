/**
 * The guarded resource: counters that remember the newest token they have seen, and refuse older ones. They live in the lab's process,
 * which is never paused, and serve one request at a time.
 */
import type { GuardAnswer, GuardAsk } from './workload.js'

interface Counter {
  newest: number
  value: number
  seq: number
}

/** A read reports its token to the guard, too: otherwise an older holder could write between the read and the write of a newer one. */
export function makeGuard(): (ask: GuardAsk) => GuardAnswer {
  const counters = new Map<string, Counter>()
  return ({ op, name, token, value }) => {
    const counter = counters.get(name) ?? { newest: 0, value: 0, seq: 0 }
    counters.set(name, counter)
    if (token < counter.newest) return { ok: false }
    counter.newest = token
    if (op === 'write') {
      counter.value = value
      counter.seq++
    }
    return { ok: true, value: counter.value, seq: counter.seq }
  }
}
