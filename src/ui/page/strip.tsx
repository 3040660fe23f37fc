/** A name's last minutes in one line: three paths, however many holds there were. */
import type { StoreModel } from '../model.js'
import type { Entry } from '../wire.js'

/** What a strip shows, in ms. */
export const span = 120_000
const width = 240
const height = 20

export function Strip({ store, entry, now }: { store: StoreModel; entry: Entry; now: number }) {
  const from = now - span
  const x = (t: number) => Math.max(0, Math.min(width, ((t - from) / span) * width))
  const box = (a: number, b: number) =>
    `M${x(a).toFixed(1)} 4h${Math.max(0.8, x(b) - x(a) - 0.4).toFixed(1)}v12H${x(a).toFixed(1)}z`
  const past = (store.pastOf.get(entry.name) ?? []).filter(({ to }) => to >= from)
  const marks = { lost: '', forced: '' }
  let held = ''
  for (const hold of past) {
    held += box(hold.since, hold.to)
    if (hold.end === 'lost' || hold.end === 'forced') marks[hold.end] += `M${x(hold.to).toFixed(1)} 1v18`
  }
  for (const hold of entry.holders) held += box(hold.since, now)
  const { length } = past
  const lost = past.filter(({ end }) => end === 'lost').length
  const words = `the last two minutes: ${length + entry.holders.length} holds, ${lost} lost`
  return (
    <svg
      class="strip"
      viewBox={`0 0 ${width} ${height}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={words}
    >
      <title>{words}</title>
      <path class="track" d={`M0 10h${width}`} />
      <path class={`bar ${kindOf(entry.holders[0]?.mode ?? past.at(-1)?.mode)}`} d={held} />
      <path class="lost" d={marks.lost} />
      <path class="forced" d={marks.forced} />
    </svg>
  )
}

export function kindOf(mode = 'exclusive'): string {
  return mode === 'exclusive' || mode === 'shared' ? mode : 'permits'
}
