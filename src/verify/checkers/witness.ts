import type { History } from '../history.js'
import { type Violation, violation } from '../violation.js'
import { type Access, accessesByName, findParties } from './access.js'

/**
 * A counter that is read, then written one higher, deliberately not in one step. If every increment counted, no value is written twice; a
 * value written twice is a lost update, and every lost update shows as one. A read never returns less than what had been written before it
 * was called.
 */
export function witness(history: History): Violation[] {
  const found: Violation[] = []
  const parties = findParties(history)
  for (const [name, all] of accessesByName(history)) {
    const accesses = all.filter((one) => one.outcome === 'ok' && one.value !== undefined)
    const report = (at: number, message: string, ...both: readonly Access[]) =>
      found.push(
        violation(history, {
          rule: 'witness',
          name,
          message: `${JSON.stringify(name)}: ${message}`,
          at,
          parties: parties(...both),
        }),
      )
    const writers = new Map<number, Access>()
    for (const one of accesses) {
      if (one.op === 'read') continue
      const first = writers.get(value(one))
      if (first === undefined) writers.set(value(one), one)
      else
        report(
          Math.max(first.ended, one.ended),
          `${value(one)} was written twice, one update is lost`,
          first,
          one,
        )
    }
    for (const [write, read] of findRegression(accesses)) {
      report(read.ended, `${value(read)} was read after ${value(write)} had been written`, write, read)
    }
  }
  return found
}

const value = (one: Access) => one.value ?? 0

function findRegression(accesses: readonly Access[]): [write: Access, read: Access][] {
  const pairs: [Access, Access][] = []
  const writes = accesses.filter((one) => one.op === 'write').sort((a, b) => a.ended - b.ended)
  let next = 0
  let greatest: Access | undefined
  for (const one of accesses) {
    if (one.op !== 'read') continue
    for (let write = writes[next]; write !== undefined && write.ended < one.invoked; write = writes[++next]) {
      if (greatest === undefined || value(write) > value(greatest)) greatest = write
    }
    if (greatest !== undefined && value(one) < value(greatest)) pairs.push([greatest, one])
  }
  return pairs
}
