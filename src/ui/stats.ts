/** Figures of the last minute or minutes. Pure. */
import type { StoreModel } from './model.js'
import type { Entry, Hold, Past } from './wire.js'

/** Of a list of ms, in any order; undefined for none. @param share 0.5 is the median */
export function percentile(values: readonly number[], share: number): number | undefined {
  if (values.length === 0) return undefined
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)] ?? sorted[0]
}

export interface Figures {
  readonly held: number
  readonly waiting: number
  /** Grants seen since then. */
  readonly grants: number
  /** How long those had waited; those that were never seen waiting count as 0. */
  readonly waits: readonly number[]
  /** How long the holds that ended since then had lasted. */
  readonly holds: readonly number[]
  readonly lost: number
  readonly forced: number
  readonly gaveUp: number
}

/** @param name only of that name; @param since ms since 1970 */
export function figures(store: StoreModel, since: number, name?: string): Figures {
  const entries = name === undefined ? [...store.entries.values()] : [store.entries.get(name)].filter(isEntry)
  const past = name === undefined ? store.past : (store.pastOf.get(name) ?? [])
  const ended = past.filter(({ to }) => to >= since)
  const present = entries.flatMap(({ holders }) => holders)
  const granted: readonly (Hold | Past)[] = [...present, ...ended].filter((hold) => hold.since >= since)
  return {
    held: present.length,
    waiting: entries.reduce((sum, entry) => sum + entry.waiting, 0),
    grants: granted.length,
    waits: granted.map(({ waited = 0 }) => waited),
    holds: ended.map((hold) => hold.to - hold.since),
    lost: ended.filter(({ end }) => end === 'lost').length,
    forced: ended.filter(({ end }) => end === 'forced').length,
    gaveUp: store.gaveUp.filter((one) => one.at >= since && (name === undefined || one.name === name)).length,
  }
}

const isEntry = (entry: Entry | undefined): entry is Entry => entry !== undefined

/** Grants by slices of time, oldest first. */
export function grantsBySlice(store: StoreModel, from: number, to: number, slices: number): number[] {
  const counts = Array.from({ length: slices }, () => 0)
  const put = ({ since }: { readonly since: number }) => {
    const slice = Math.floor(((since - from) / (to - from)) * slices)
    if (slice >= 0 && slice < slices) counts[slice] = (counts[slice] ?? 0) + 1
  }
  for (const hold of store.past) put(hold)
  for (const { holders } of store.entries.values()) for (const hold of holders) put(hold)
  return counts
}

export type Order = 'waiting' | 'age' | 'name'

/** The entries whose name, holder or note has `wanted` in it, in that order. */
export function listed(store: StoreModel, wanted: string, order: Order): Entry[] {
  const text = wanted.trim().toLowerCase()
  const found = [...store.entries.values()].filter((entry) => text === '' || matches(entry, text))
  const age = ({ holders }: Entry) =>
    holders.reduce((least, { since }) => Math.min(least, since), Number.POSITIVE_INFINITY)
  const compare: Record<Order, (a: Entry, b: Entry) => number> = {
    name: (a, b) => (a.name < b.name ? -1 : 1),
    waiting: (a, b) => b.waiting - a.waiting || (a.name < b.name ? -1 : 1),
    age: (a, b) => age(a) - age(b) || (a.name < b.name ? -1 : 1),
  }
  return found.sort(compare[order])
}

function matches({ name, holders }: Entry, text: string): boolean {
  const has = (value: string | undefined) => value?.toLowerCase().includes(text) === true
  return has(name) || holders.some(({ client, note }) => has(client) || has(note))
}

/** Which of several stores a name that was typed is looked for in: where it is, else one that cannot list its names, else the first. */
export function storeOf(stores: readonly StoreModel[], name: string): StoreModel | undefined {
  return stores.find(({ entries }) => entries.has(name)) ?? stores.find(({ lists }) => !lists) ?? stores[0]
}

/**
 * Text from another process, with characters that are not seen as `\u{…}`: a name must not look like another, nor turn the line around.
 * As `holdfast ls` and `top` show it.
 */
export function visible(text: string): string {
  return text.replace(
    /[\p{Cc}\p{Cf}\u2028\u2029]/gu,
    (char) => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`,
  )
}

/** `340 ms`, `3.2 s`, `2 min 5 s`, `3 h 4 min`, `2 d 3 h`. */
export function lasted(ms: number): string {
  if (!Number.isFinite(ms)) return 'forever'
  const value = Math.max(0, ms)
  if (value < 1_000) return `${Math.round(value)} ms`
  const seconds = value / 1_000
  if (seconds < 10) return `${seconds.toFixed(1)} s`
  if (seconds < 60) return `${Math.floor(seconds)} s`
  if (seconds < 3_600) return two(seconds, 60, 'min', 1, 's')
  if (seconds < 86_400) return two(seconds, 3_600, 'h', 60, 'min')
  return two(seconds, 86_400, 'd', 3_600, 'h')
}

function two(seconds: number, large: number, unit: string, small: number, subunit: string): string {
  const rest = Math.floor((seconds % large) / small)
  return `${Math.floor(seconds / large)} ${unit}${rest === 0 ? '' : ` ${rest} ${subunit}`}`
}
