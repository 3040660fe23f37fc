/** §4.5, "Snapshot the lock state": derives holders and waiters from the store's report on lines and gates. */
import type { Holder, LockStatus, Waiter } from 'holdfast'
import { parseNote, readLockName } from './names.js'
import type { LockInfo, LockManagerSnapshot, LockMode } from './types.js'

interface Row {
  readonly info: LockInfo
  readonly request: string | undefined
}
interface Holding extends Row {
  readonly token: number
}
interface LockEntries {
  line?: LockStatus
  gate?: LockStatus
}

/**
 * @param readName the name that was encoded so, as far as it is known
 * @param begun the position of a request among the callbacks of this manager, if it is one of them
 */
export function snapshot(
  standings: readonly LockStatus[],
  readName: (encoded: string) => string,
  begun: (request: string) => number | undefined,
): LockManagerSnapshot {
  const places = new Map<string, LockEntries>()
  for (const status of standings) {
    const ours = readLockName(status.name)
    if (ours === undefined) continue
    const place = places.get(ours.encoded) ?? {}
    place[ours.part] = status
    places.set(ours.encoded, place)
  }
  const held: Holding[] = []
  const pending: LockInfo[] = []
  for (const [encoded, { line, gate }] of places) {
    const name = readName(encoded)
    const seen = new Set<string>()
    const unseen = ({ request }: Row): boolean => {
      if (request === undefined) return true
      return !seen.has(request) && seen.add(request) !== undefined
    }
    const rows = (of: readonly (Holder | Waiter)[] = []) => of.map((one) => toRow(name, one)).filter(unseen)
    // The holder of the gate holds the line too: it is listed once, as held. The head of the line waits like the
    // rest.
    const holders = gate?.holders.toSorted((a, b) => a.token - b.token || b.heldFor - a.heldFor)
    for (const holder of holders ?? [])
      for (const row of rows([holder])) held.push({ ...row, token: holder.token })
    for (const of of [gate?.waiters, line?.holders, line?.waiters])
      pending.push(...rows(of).map(({ info }) => info))
  }
  return { held: inOrder(held, begun).map(({ info }) => info), pending }
}

/** In the order of the grants: tokens of one store grow with time, and for this manager's own callbacks the order is known. */
function inOrder(held: readonly Holding[], begun: (request: string) => number | undefined): Holding[] {
  const sorted = held.toSorted((a, b) => a.token - b.token)
  const own = sorted.flatMap((one) => {
    const at = one.request === undefined ? undefined : begun(one.request)
    return at === undefined ? [] : [{ one, at }]
  })
  const next = new Set(own.map(({ one }) => one))
  const ours = own.sort((a, b) => a.at - b.at).values()
  return sorted.map((one) => (next.has(one) ? (ours.next().value?.one ?? one) : one))
}

function toRow(name: string, { mode, note, client }: Holder | Waiter): Row {
  const mark = parseNote(note)
  const how: LockMode = mode.kind === 'shared' ? 'shared' : 'exclusive'
  return {
    info: { name, mode: how, clientId: mark?.clientId ?? client ?? 'unknown' },
    request: mark?.request,
  }
}
