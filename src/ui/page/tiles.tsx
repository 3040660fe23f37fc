/** Figures, and the rate of the last minutes as a small curve. */
import type { StoreModel } from '../model.js'
import { type Figures, figures, grantsBySlice, lasted, percentile } from '../stats.js'

const minute = 60_000

function Tile({
  label,
  value,
  more,
  bad,
}: {
  label: string
  value: string
  more?: string | undefined
  bad?: boolean
}) {
  return (
    <div class={bad ? 'tile bad' : 'tile'}>
      <dt>{label}</dt>
      <dd>
        {value}
        {more !== undefined && <small>{more}</small>}
      </dd>
    </div>
  )
}

function waitsText({ waits }: Figures): { value: string; more: string } {
  const at = (share: number) => {
    const found = percentile(waits, share)
    return found === undefined ? '–' : lasted(found)
  }
  return { value: at(0.5), more: `95 %: ${at(0.95)} · 99 %: ${at(0.99)}` }
}

/** @param name only of that name */
export function Tiles({
  store,
  now,
  name,
  keeps,
}: {
  store: StoreModel
  now: number
  name?: string
  keeps: number
}) {
  const last = figures(store, now - minute, name)
  const kept = figures(store, now - keeps, name)
  const waits = waitsText(last)
  const half = percentile(last.holds, 0.5)
  return (
    <dl class="tiles">
      <Tile
        label="held now"
        value={`${last.held}`}
        more={name === undefined ? `of ${store.entries.size} names` : undefined}
      />
      <Tile label="waiting now" value={`${last.waiting}`} />
      <Tile label="grants seen, last minute" value={`${last.grants}`} />
      <Tile label="wait, median of the last minute" value={waits.value} more={waits.more} />
      <Tile label="hold, median" value={half === undefined ? '–' : lasted(half)} />
      <Tile
        label={`lost, last ${lasted(keeps)}`}
        value={`${kept.lost}`}
        more={`forced: ${kept.forced} · gave up: ${kept.gaveUp}`}
        bad={kept.lost > 0}
      />
    </dl>
  )
}

const slices = 60

export function Rate({ store, now, keeps }: { store: StoreModel; now: number; keeps: number }) {
  const counts = grantsBySlice(store, now - keeps, now, slices)
  const most = Math.max(1, ...counts)
  const perSecond = (count: number) => `${((count / keeps) * slices * 1_000).toFixed(1)}/s`
  const words = `grants seen: up to ${perSecond(most)} in the last ${lasted(keeps)}`
  const bars = counts.map((count, i) => `M${i * 4} 32v${-(count / most) * 30}h3V32z`).join('')
  return (
    <figure class="rate">
      <svg viewBox="0 0 240 32" preserveAspectRatio="none" role="img" aria-label={words}>
        <title>{words}</title>
        <path class="bar exclusive" d={bars} />
      </svg>
      <figcaption>{words}</figcaption>
    </figure>
  )
}
