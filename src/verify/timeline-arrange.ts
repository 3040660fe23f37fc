/** Arranges timelines beside each other, and violations within one. */
import type { Band, Timeline } from './timeline.js'

/** The same timelines, each as long as the longest, so that a comparison of two is one of lengths. */
export function withSharedScale(timelines: readonly Timeline[]): Timeline[] {
  const longest = Math.max(0, ...timelines.map(({ from, to }) => to - from))
  return timelines.map((timeline) => ({ ...timeline, to: timeline.from + longest }))
}

/** Violations that overlap in time, as one period with all their rows: what is wrong at a moment is marked once. */
export function mergeBands(bands: readonly Band[]): { readonly band: Band; readonly of: readonly Band[] }[] {
  const found: { band: Band; of: Band[] }[] = []
  for (const next of [...bands].sort((a, b) => a.from - b.from)) {
    const last = found.at(-1)
    if (last === undefined || next.from > last.band.to) {
      found.push({ band: next, of: [next] })
      continue
    }
    const rows = [...new Set([...last.band.rows, ...next.rows])]
    last.band = { ...last.band, to: Math.max(last.band.to, next.to), rows }
    last.of.push(next)
  }
  return found
}
