import type { History } from '../history.js'
import { type Violation, violation } from '../violation.js'
import { type Access, accessesByName, findParties } from './access.js'

/**
 * The resource's side: tokens of accepted writes do not go back, and a write is refused as stale only if the guard could have seen a newer
 * token. The order of writes is the resource's own (`seq`) if it reports one, else real time: of two overlapping writes, either may have
 * been first.
 */
export function guard(history: History): Violation[] {
  const found: Violation[] = []
  const parties = findParties(history)
  for (const [name, accesses] of accessesByName(history)) {
    const report = (at: number, message: string, ...both: readonly Access[]) =>
      found.push(
        violation(history, {
          rule: 'guard',
          name,
          message: `${JSON.stringify(name)}: ${message}`,
          at,
          parties: parties(...both),
        }),
      )
    const fenced = accesses.filter((one) => one.token !== undefined)
    const accepted = fenced.filter((one) => one.op === 'write' && one.outcome === 'ok')
    const backwards = accepted.every((one) => one.seq !== undefined) ? bySeq(accepted) : byTime(accepted)
    for (const [newer, older] of backwards) {
      report(
        older.ended,
        `a write with token ${older.token} was accepted after one with ${newer.token}`,
        newer,
        older,
      )
    }
    for (const one of needlesslyRefused(fenced)) {
      report(
        one.ended,
        `a write with token ${one.token} was refused as stale, but no newer one had been sent`,
        one,
      )
    }
  }
  return found
}

type Pair = readonly [newer: Access, older: Access]

const token = (one: Access) => one.token ?? 0

function bySeq(accepted: readonly Access[]): Pair[] {
  const pairs: Pair[] = []
  let newest: Access | undefined
  for (const one of [...accepted].sort((a, b) => (a.seq ?? 0) - (b.seq ?? 0))) {
    if (newest !== undefined && token(one) < token(newest)) pairs.push([newest, one])
    else newest = one
  }
  return pairs
}

function byTime(accepted: readonly Access[]): Pair[] {
  const pairs: Pair[] = []
  const answers = [...accepted].sort((a, b) => a.ended - b.ended)
  let next = 0
  let newest: Access | undefined
  for (const one of accepted) {
    for (let done = answers[next]; done !== undefined && done.ended < one.invoked; done = answers[++next]) {
      if (newest === undefined || token(done) > token(newest)) newest = done
    }
    if (newest !== undefined && token(one) < token(newest)) pairs.push([newest, one])
  }
  return pairs
}

/** A guard learns tokens from every request, accepted or not. */
function needlesslyRefused(fenced: readonly Access[]): Access[] {
  const refused = fenced.filter((one) => one.outcome === 'refused' && one.kind === 'stale')
  let next = 0
  let newest = Number.NEGATIVE_INFINITY
  return refused
    .sort((a, b) => a.ended - b.ended)
    .filter((one) => {
      for (let sent = fenced[next]; sent !== undefined && sent.invoked < one.ended; sent = fenced[++next]) {
        newest = Math.max(newest, token(sent))
      }
      return newest <= token(one)
    })
}
