/**
 * Which tokens may go back once a server's clock was set back. A new token is greater than all that the server remembers, and not smaller than its
 * clock (docs/guarantees.md). So a token may be smaller than one before it, or the same, only if all of this is so:
 * - data were lost after that one had been granted, and before this one was;
 * - it is not smaller than what the clock showed when it was granted;
 * - it is greater than every token of the lock that was granted since that loss.
 */
import type { Acquisition, History, Violation } from 'holdfast/verify'
import { findHandedOver } from './caching.js'
import { type FaultSpan, faultSpans } from './fault-spans.js'

/** Noted at every jump: what the clock of the server shows afterwards, in ms since 1970. */
export const clockReading = 'clock of the server'

/** The clock was read a moment before the note was written, and the machine's two clocks may drift apart, in µs. */
const tolerance = 50_000

/** When a token was granted by the store: between these. */
interface Minted {
  readonly from: number
  readonly to: number
}

/**
 * @param losses kinds of faults that delete data
 * @param ttl the longest term of any lock, in ms
 */
export function findLostTokens(
  history: History,
  losses: readonly string[],
  ttl: number,
): (violation: Violation) => boolean {
  const lost = faultSpans(history).filter(({ kind }) => losses.includes(kind))
  const clockIn = readClock(history)
  const minted = findMinted(history, ttl)
  const explains = (loss: FaultSpan, before: Acquisition, one: Acquisition) => {
    const { from, to } = minted(one)
    if (minted(before).from > loss.to || to < loss.from) return false
    if (tokenOf(one) < clockIn(Math.max(from, loss.from), to) - tolerance) return false
    const since = history.acquisitions.filter(
      (other) =>
        other.name === one.name &&
        other.granted !== undefined &&
        other.granted < one.invoked &&
        minted(other).from > loss.to,
    )
    return since.every((other) => tokenOf(other) < tokenOf(one))
  }
  return ({ parties: [before, one] }) =>
    before !== undefined && one !== undefined && lost.some((loss) => explains(loss, before, one))
}

const tokenOf = ({ token = 0 }: Acquisition) => token

/** What the clock showed at the least between two times of the history, in µs since 1970. */
function readClock({ events }: History): (from: number, to: number) => number {
  const readings = events.flatMap(({ op, kind, t, value }) =>
    op === 'fault' && kind === clockReading && value !== undefined
      ? [{ t, zero: value * 1e3 - t / 1e3 }]
      : [],
  )
  return (from, to) => {
    const before = readings.findLast(({ t }) => t <= from) ?? readings[0]
    const shown = readings.filter(({ t }) => t > from && t <= to).map(({ t, zero }) => zero + t / 1e3)
    return Math.min(...shown, before === undefined ? Number.POSITIVE_INFINITY : before.zero + from / 1e3)
  }
}

/**
 * A token that was handed over inside a process was granted with the one that its process got from the store before. A request may take over what
 * an abandoned one of its process has been granted, as long as that lasts.
 */
function findMinted(history: History, ttl: number): (one: Acquisition) => Minted {
  const wasHandedOver = findHandedOver(history)
  const inTime = [...history.acquisitions].sort((a, b) => (a.granted ?? 0) - (b.granted ?? 0))
  const asked = new Map<string, Acquisition>()
  const found = new Map<Acquisition, Minted>()
  for (const one of inTime) {
    const { client, name, granted } = one
    if (granted === undefined) continue
    const key = `${client} ${name}`
    if (!wasHandedOver(one)) asked.set(key, one)
    const first = asked.get(key)
    const isKnown = first !== undefined && tokenOf(first) <= tokenOf(one)
    const from = isKnown ? first.invoked - ttl * 1e6 : Number.NEGATIVE_INFINITY
    found.set(one, { from, to: (isKnown ? first.granted : undefined) ?? granted })
  }
  return (one) => found.get(one) ?? { from: Number.NEGATIVE_INFINITY, to: Number.POSITIVE_INFINITY }
}
