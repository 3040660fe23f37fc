/** Does a node of a Cluster currently grant free locks? Computed as in `src/drivers/redis/scripts/slot-marker.ts`. */
import { formatDuration } from '../duration.js'
import { type Check, ok, weak } from './check.js'

/** The marker of one slot. */
export interface SlotMarker {
  /** How long nothing is granted from now on, in ms. */
  readonly barredFor: number
  /** The beginning of the node's `master_replid` when it was written. */
  readonly life: string
  /** The node's `run_id` when it was written. */
  readonly process: string | undefined
  /** How long ago the node may last have lost anything, in ms. */
  readonly since: number
}

type Ask = (command: string, ...args: string[]) => Promise<unknown>

/** The markers of the first and the last slot of a node, which speak for all. Empty: there are none, or they may not be read. */
export async function slotMarkers(ask: Ask, prefix: string, now: number): Promise<SlotMarker[]> {
  const own = String(await ask('CLUSTER', 'NODES'))
    .split('\n')
    .find((line) => /^\S+ \S+ \S*myself/.test(line))
  const ranges = (own?.split(' ').slice(8) ?? []).filter((range) => !range.startsWith('['))
  const slots = ranges.flatMap((range) => range.split('-'))
  const ends = new Set(slots.length > 0 ? [slots[0] ?? '', slots.at(-1) ?? ''] : [])
  const found: SlotMarker[] = []
  for (const slot of ends) {
    const keys = await ask('CLUSTER', 'GETKEYSINSLOT', slot, '1000')
    const is = (key: unknown) =>
      String(key).startsWith(`${prefix}{`) && /^\{[@-O]{4}\}:boot$/.test(String(key).slice(prefix.length))
    const key = Array.isArray(keys) && keys.find(is)
    const [, till, life = '', since, process] =
      /^(\d+) (\S+) \d+ (\d+)(?: (\S+))?$/.exec(String(key && (await ask('GET', String(key))))) ?? []
    if (till === undefined) continue
    // In µs.
    found.push({
      life,
      process,
      barredFor: Math.max(0, Number(till) / 1_000 - now),
      since: Math.max(0, now - Number(since) / 1_000),
    })
  }
  return found
}

const deletions = ['flushall', 'flushdb', 'swapdb', 'debug', 'config|resetstat']

/** @param whole a whole quarantine, in ms */
export function slotQuarantine(
  info: ReadonlyMap<string, string>,
  markers: readonly SlotMarker[],
  whole: number,
): Check {
  const what = 'quarantine'
  const up = 1_000 * Number(info.get('uptime_in_seconds') ?? 0)
  const life = (info.get('master_replid') ?? '').slice(0, 16)
  const promoted = /[1-9a-f]/.test(info.get('master_replid2') ?? '')
  // A master that has got its first replica, or lost the last, has another history and is the same process.
  const run = promoted ? '' : (info.get('run_id') ?? '')
  const own = markers.filter((marker) => marker.life === life || marker.process === run)
  const deleted = deletions.some((name) => /^calls=[1-9]/.test(info.get(`cmdstat_${name}`) ?? ''))
  const ages = own.map(({ since }) => since)
  if (!promoted && !deleted) ages.push(up)
  if (ages.length === 0) {
    const found = `${promoted ? 'promoted' : 'data were deleted'} since it started, and no lock was asked for since`
    return weak(
      what,
      found,
      `safe; from the first request on free locks are refused for ${formatDuration(whole)}`,
      'wait',
    )
  }
  const left = Math.max(whole - Math.max(...ages), ...own.map(({ barredFor }) => barredFor))
  if (left <= 0) return ok(what, 'over: free locks are granted at once')
  const found = promoted
    ? 'a replica was promoted, and may lack locks'
    : deleted
      ? 'data were deleted, and may have been locks'
      : `up for ${up < 1_000 ? 'less than 1s' : formatDuration(up)}, and may have forgotten locks that it knew`
  return weak(what, found, `safe; free locks are refused for ${formatDuration(left)} more`, 'wait')
}
