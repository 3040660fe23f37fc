/** Who held a name when: a row for every process, as in the timelines of `holdfast verify`. */
import type { RefObject } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { StoreModel } from '../model.js'
import { lasted, visible } from '../stats.js'
import type { Hold, Past } from '../wire.js'
import { kindOf } from './strip.js'

/** In units of the drawing. On a screen that is narrower, a unit is a pixel: text stays readable. */
const most = 1000
const least = 280
const labels = 190
const rowHeight = 26
const mostRows = 16
const mostBars = 600

type Bar = (Hold | Past) & { readonly to: number }

export function Timeline({
  store,
  name,
  now,
  keeps,
}: {
  store: StoreModel
  name: string
  now: number
  keeps: number
}) {
  const picture = useRef<SVGSVGElement>(null)
  const width = useWidth(picture)
  const left = Math.min(labels, Math.round(width / 3.5))
  const from = now - keeps
  const past = (store.pastOf.get(name) ?? []).filter(({ to }) => to >= from)
  const present: Bar[] = (store.entries.get(name)?.holders ?? []).map((hold) => ({ ...hold, to: now }))
  const bars: Bar[] = [...past, ...present].slice(-mostBars)
  const rows = rowsOf(bars)
  const bottom = 24 + rows.length * rowHeight
  const x = (t: number) => Math.max(left, Math.min(width, left + ((t - from) / keeps) * (width - left)))
  const words = `${bars.length} holds by ${rows.length} processes in the last ${lasted(keeps)}; the table below lists the newest`
  return (
    <svg ref={picture} class="timeline" viewBox={`0 0 ${width} ${bottom + 30}`} role="img" aria-label={words}>
      {store.gaps.map((gap) => (
        <g key={gap.from}>
          <rect
            class="gap"
            x={x(gap.from)}
            y={18}
            width={Math.max(1, x(gap.to) - x(gap.from))}
            height={bottom - 18}
          />
          {x(gap.to) - x(gap.from) > 70 && (
            <text class="small" x={x(gap.from) + 4} y={13}>
              nobody looked
            </text>
          )}
        </g>
      ))}
      {rows.map((row, i) => (
        <g key={row.label}>
          {i % 2 === 0 && (
            <rect class="stripe" x={left} y={18 + i * rowHeight} width={width - left} height={rowHeight} />
          )}
          <text x={0} y={18 + i * rowHeight + 17}>
            {cut(row.label, Math.floor(left / 7.3))}
          </text>
          <path class="waited" d={row.bars.map((bar) => waitPath(bar, x, 18 + i * rowHeight)).join('')} />
          {row.bars.map((bar) => (
            <HoldBar key={`${bar.attempt} ${bar.token}`} bar={bar} x={x} y={18 + i * rowHeight} />
          ))}
        </g>
      ))}
      <Axis from={from} to={now} x={x} y={bottom} room={width - left} />
    </svg>
  )
}

function useWidth(picture: RefObject<SVGSVGElement | null>): number {
  const [width, setWidth] = useState(most)
  useEffect(() => {
    const element = picture.current
    if (element === null) return
    const watch = new ResizeObserver(() =>
      setWidth(Math.max(least, Math.min(most, Math.round(element.clientWidth)))),
    )
    watch.observe(element)
    return () => watch.disconnect()
  }, [])
  return width
}

function rowsOf(bars: readonly Bar[]): { label: string; bars: Bar[] }[] {
  const rows = new Map<string, Bar[]>()
  for (const bar of bars) {
    const label = visible(bar.client ?? 'unknown')
    const row = rows.get(label)
    if (row === undefined) rows.set(label, [bar])
    else row.push(bar)
  }
  const all = [...rows].map(([label, own]) => ({ label, bars: own }))
  if (all.length <= mostRows) return all
  const kept = all.slice(-mostRows + 1)
  const others = all.slice(0, -mostRows + 1)
  return [{ label: `${others.length} other processes`, bars: others.flatMap((row) => row.bars) }, ...kept]
}

/** Below all holds: the wait of one covers holds of others in its process. */
function waitPath({ since, waited = 0 }: Bar, x: (t: number) => number, y: number): string {
  const [from, to] = [x(since - waited), x(since)]
  return waited === 0 || to <= from ? '' : `M${from} ${y + 10}H${to}v6H${from}z`
}

function HoldBar({ bar, x, y }: { bar: Bar; x: (t: number) => number; y: number }) {
  const begin = x(bar.since)
  const end = Math.max(begin + 1.5, x(bar.to))
  const over = 'end' in bar ? bar.end : 'held'
  const token = `${bar.token}`
  const note = bar.note === undefined ? '' : `, ${visible(bar.note)}`
  const waited = bar.waited ?? 0
  return (
    <g>
      <title>{`token ${token}, ${bar.mode}, waited ${lasted(waited)}, held ${lasted(bar.to - bar.since)}, ${over}${note}`}</title>
      <rect
        class={`bar ${kindOf(bar.mode)} ${over}`}
        x={begin}
        y={y + 4}
        width={end - begin}
        height={18}
        rx={2}
      />
      {end - begin > token.length * 6.4 + 8 && (
        <text class="token" x={(begin + end) / 2} y={y + 17}>
          {token}
        </text>
      )}
      {over === 'lost' && <path class="lost" d={`M${end} ${y + 1}v24`} />}
      {over === 'forced' && <path class="forced" d={`M${end - 4} ${y + 9}l8 8m0 -8l-8 8`} />}
    </g>
  )
}

interface AxisProps {
  readonly from: number
  readonly to: number
  readonly x: (t: number) => number
  readonly y: number
  /** For all labels, in units of the drawing. */
  readonly room: number
}

function Axis({ from, to, x, y, room }: AxisProps) {
  const fits = Math.min(8, Math.max(1, room / 90))
  const step =
    [5, 10, 30, 60, 120, 300, 600, 1_800].map((s) => s * 1_000).find((s) => (to - from) / s <= fits) ??
    3_600_000
  const ticks = Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, i) => to - i * step)
  return (
    <g class="axis">
      {ticks.map((t, i) => (
        <g key={t}>
          <path class="grid" d={`M${x(t)} 18V${y}`} />
          <text
            class="small"
            x={x(t)}
            y={y + 18}
            text-anchor={i === 0 ? 'end' : x(t) - x(from) < 30 ? 'start' : 'middle'}
          >
            {i === 0 ? 'now' : `${lasted(to - t)} ago`}
          </text>
        </g>
      ))}
    </g>
  )
}

const cut = (text: string, most: number) => (text.length > most ? `…${text.slice(1 - most)}` : text)
