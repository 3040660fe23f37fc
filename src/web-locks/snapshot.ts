/** §4.5, "Snapshot the lock state": from what the store says about lines and gates to who holds and who waits. */
import type { Standing } from 'holdfast'
import { readLockName, readNote } from './names.js'
import type { LockInfo, LockManagerSnapshot, LockMode } from './types.js'

interface Row {
  readonly info: LockInfo
  readonly request: string | undefined
}
interface Place {
  line?: Standing
  gate?: Standing
}

/** @param readName the name that was encoded so, as far as it is known */
export function snapshot(
  standings: readonly Standing[],
  readName: (encoded: string) => string,
): LockManagerSnapshot {
  const places = new Map<string, Place>()
  for (const standing of standings) {
    const ours = readLockName(standing.name)
    if (ours === undefined) continue
    const place = places.get(ours.encoded) ?? {}
    place[ours.part] = standing
    places.set(ours.encoded, place)
  }
  const held: LockInfo[] = []
  const pending: LockInfo[] = []
  for (const [encoded, { line, gate }] of places) {
    const name = readName(encoded)
    const seen = new Set<string>()
    const unseen = ({ request }: Row): boolean => {
      if (request === undefined) return true
      return !seen.has(request) && seen.add(request) !== undefined
    }
    const rows = (of: readonly { mode: { kind: string }; note?: string; by?: string }[] = []) =>
      of.map((one) => rowOf(name, one)).filter(unseen)
    // Whoever holds the gate holds the line too: it is told once, as held. The head of the line waits like the rest.
    const holders = gate?.holders.toSorted((a, b) => a.token - b.token || b.heldFor - a.heldFor)
    held.push(...rows(holders).map(({ info }) => info))
    for (const of of [gate?.waiters, line?.holders, line?.waiters])
      pending.push(...rows(of).map(({ info }) => info))
  }
  return { held, pending }
}

function rowOf(
  name: string,
  { mode, note, by }: { mode: { kind: string }; note?: string; by?: string },
): Row {
  const mark = readNote(note)
  const how: LockMode = mode.kind === 'shared' ? 'shared' : 'exclusive'
  return { info: { name, mode: how, clientId: mark?.clientId ?? by ?? 'unknown' }, request: mark?.request }
}
