/** The difference of two rows: what the journal must record before the new row is in force. */
import type { Hold, Row } from '../memory/table.js'
import { type JournaledHold, toLines } from './journal-lines.js'

export interface Owner {
  readonly client: string
  readonly identity: JournaledHold['identity']
}

/** Holds that have ended, each with its journal line. */
export function endsBetween(
  before: Row,
  after: Row,
): { readonly line: string; readonly byClient: boolean }[] {
  if (before.holds === after.holds) return []
  const is = createLookup(after.holds)
  return before.holds
    .filter(({ attempt }) => is(attempt) === undefined)
    .map(({ attempt }) => {
      const byClient = after.ended.includes(attempt)
      return { line: toLines.ended(after.name, attempt, byClient), byClient }
    })
}

/** The journal lines of new and changed holds. */
export function changesBetween(before: Row, after: Row, ownerOf: (attempt: string) => Owner): string {
  if (before.holds === after.holds) return ''
  const { name } = after
  const was = createLookup(before.holds)
  let lines = ''
  for (const hold of after.holds) {
    const old = was(hold.attempt)
    if (old === undefined) lines += toLines.granted({ name, hold, ...ownerOf(hold.attempt) })
    else if (hold.mode !== old.mode) lines += toLines.downgraded(name, hold)
    else if (hold.ttl > old.ttl) lines += toLines.longer(name, hold)
  }
  return lines
}

/** Looks up holds by attempt; most rows have one. */
export function createLookup(held: readonly Hold[]): (attempt: string) => Hold | undefined {
  if (held.length < 8) return (attempt) => held.find((hold) => hold.attempt === attempt)
  const map = new Map(held.map((hold) => [hold.attempt, hold]))
  return (attempt) => map.get(attempt)
}
