/**
 * A self-contained SVG of a timeline: light and dark by the viewer's setting, colours that colour-blind people can tell apart, and never
 * colour alone (waits are thin, violations framed and named, ends have shapes). What is wrong at a moment is marked once, around the rows it concerns.
 *
 * Long because the drawing reads best in one piece, from its frame to its legend.
 */
import { type Band, type Bar, type Mark, milliseconds, quarantine, type Timeline, ticks } from './timeline.js'
import { mergeBands } from './timeline-arrange.js'

export interface SvgOptions {
  /** Pixels. @default 960 */
  readonly width?: number
}

const rowHeight = 30
const right = 24

/** Palette by Okabe and Ito. https://jfly.uni-koeln.de/color/ */
const style = `
  text { font: 12px ui-sans-serif, system-ui, sans-serif; fill: #222 }
  .title { font-size: 16px; font-weight: 600 } .small { font-size: 11px; fill: #666 }
  .back { fill: #fff } .stripe { fill: #f5f6f8 } .grid { stroke: #dde1e6 }
  .waiting { fill: #c3c9d1 } .exclusive { fill: #0072b2 } .shared { fill: #009e73 } .permits { fill: #7a5195 }
  .token { fill: #fff; font-size: 11px; font-weight: 600; text-anchor: middle }
  .beside { font-size: 11px; font-weight: 600 } .figure { font-size: 14px; font-weight: 600 } .good { fill: #00704f } .bad-text { fill: #b34700 }
  .lost { stroke: #cc3399; stroke-width: 3; fill: none } .killed { stroke: #222; stroke-width: 2 }
  .fault { fill: #e69f00 } .during { fill: #e69f00; opacity: .25 } .everybody { stroke: #e69f00; stroke-dasharray: 4 3 }
  .bad { fill: #d55e00; fill-opacity: .1; stroke: #d55e00; stroke-width: 2 } .quarantine { fill: url(#hatch); opacity: .5 } .hatch { stroke: #8a94a0 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6e8eb } .small { fill: #9aa3ad } .back { fill: #16191d } .stripe { fill: #1d2126 } .grid { stroke: #333a42 }
    .waiting { fill: #4c555f } .exclusive { fill: #2a8fd0 } .killed { stroke: #e6e8eb } .lost { stroke: #f07ac6 }
    .good { fill: #4cc79f } .bad-text { fill: #ff9a57 } .bad { fill-opacity: .22 }
  }`

export function renderSvg(timeline: Timeline, options: SvgOptions = {}): string {
  const { width = 960 } = options
  const left = 24 + 7 * Math.min(26, Math.max(6, ...timeline.rows.map((row) => row.label.length)))
  const top = topMargin(timeline)
  const bottom = top + timeline.rows.length * rowHeight
  const height = bottom + 86
  const scale = (width - left - right) / (timeline.to - timeline.from)
  const x = (t: number) => round(Math.min(width - right, Math.max(left, left + (t - timeline.from) * scale)))
  const frame: Frame = { timeline, width, left, top, bottom, x }
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-labelledby="title desc">`,
    `<title id="title">${escaped(timeline.title)}</title><desc id="desc">${escaped(summary(timeline))}</desc>`,
    `<style>${style}\n</style>`,
    '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><line class="hatch" y2="6" stroke-width="2"/></pattern></defs>',
    `<rect class="back" width="${width}" height="${height}"/><text class="title" x="24" y="30">${escaped(timeline.title)}</text>${figureText(timeline)}`,
    ...grid(frame),
    ...timeline.marks.map((mark) => describeRows(frame, mark)),
    ...timeline.rows.map((row, i) => group(frame, i, row.label, row.bars, row.marks)),
    ...violations(frame),
    ...legend(frame),
    '</svg>',
    '',
  ].join('\n')
}

/** Room for the title, the figure, and one line each for what was done to all and for violations. */
function topMargin({ summary, marks, bands }: Timeline): number {
  return 44 + (summary ? 20 : 0) + (marks.length > 0 ? 16 : 0) + (bands.length > 0 ? 18 : 0)
}

function figureText({ summary }: Timeline): string {
  if (summary === undefined) return ''
  const sign = summary.good ? '✓' : '✗'
  return `<text class="figure ${summary.good ? 'good' : 'bad-text'}" x="24" y="52">${sign} ${escaped(summary.text)}</text>`
}

interface Frame {
  readonly timeline: Timeline
  readonly width: number
  readonly left: number
  readonly top: number
  readonly bottom: number
  readonly x: (t: number) => number
}

const round = (value: number) => Math.round(value * 100) / 100

function summary({ rows, bands, marks, from, to }: Timeline): string {
  const held = rows.flatMap((row) => row.bars).filter((bar) => bar.kind !== 'waiting').length
  const faults = marks.length + rows.reduce((sum, row) => sum + row.marks.length, 0)
  return `${held} holds by ${rows.length} processes in ${milliseconds(to - from)}, ${faults} faults, ${bands.length} violations`
}

function grid({ timeline, width, left, top, bottom, x }: Frame): string[] {
  const stripes = timeline.rows.map((_, i) =>
    i % 2 === 1
      ? ''
      : `<rect class="stripe" x="${left}" y="${top + i * rowHeight}" width="${width - right - left}" height="${rowHeight}"/>`,
  )
  // The labels at both ends stay inside the picture.
  const anchor = (at: number) => (at < left + 24 ? 'start' : at > width - right - 24 ? 'end' : 'middle')
  const lines = ticks(timeline.from, timeline.to, (width - left) / 110).map(
    ({ at, text }) =>
      `<line class="grid" x1="${x(at)}" x2="${x(at)}" y1="${top}" y2="${bottom}"/><text class="small" x="${x(at)}" y="${bottom + 16}" text-anchor="${anchor(x(at))}">${text}</text>`,
  )
  return [...stripes.filter(Boolean), ...lines]
}

/** One frame for each period, around the rows from the first to the last that it concerns, with what was wrong above it. */
function violations({ timeline, width, left, top, x }: Frame): string[] {
  let free = left
  return mergeBands(timeline.bands).map(({ band, of }) => {
    const [first, last] = [Math.min(...band.rows), Math.max(...band.rows)]
    const begin = x(band.from)
    const box = `x="${begin}" y="${top + first * rowHeight + 1}" width="${round(Math.max(4, x(band.to) - begin))}" height="${(last - first + 1) * rowHeight - 2}"`
    const all = of.map(({ text }) => text).join('\n')
    const words = bandText(timeline, band, of)
    const room = words.length * 6.2
    const at = Math.min(begin, width - right - room)
    const text =
      at >= free
        ? `<text class="small bad-text" x="${round(at)}" y="${top - 6}">${escaped(words)}</text>`
        : ''
    if (text !== '') free = at + room + 8
    return `<rect class="bad" ${box} rx="4"><title>${escaped(all)}</title></rect>${text}`
  })
}

/** `3 inside at once, 60.0 ms`, or the rules that were broken. */
function bandText({ rows }: Timeline, band: Band, of: readonly Band[]): string {
  const rules = new Set(of.map(({ text }) => /^[a-z-]+(?=:)/.exec(text)?.[0] ?? text))
  if (rules.size > 1 || !rules.has('exclusion')) return [...rules].join(', ')
  const edges = rows
    .flatMap((row) => row.bars)
    .filter((bar) => bar.kind !== 'waiting' && bar.to > band.from && bar.from < band.to)
    .flatMap((bar) => [[bar.from, 1] as const, [bar.to, -1] as const])
    .sort(([a, up], [b, down]) => a - b || up - down)
  let inside = 0
  const most = edges.reduce((best, [, change]) => {
    inside += change
    return Math.max(best, inside)
  }, 0)
  return `${most} inside at once, ${milliseconds(band.to - band.from)}`
}

function group(
  frame: Frame,
  index: number,
  label: string,
  bars: readonly Bar[],
  marks: readonly Mark[],
): string {
  const { timeline, top, x, width } = frame
  const y = top + index * rowHeight
  const seen = (from: number, to: number) => to >= timeline.from && from <= timeline.to
  const waits = bars
    .filter((bar) => bar.kind === 'waiting' && seen(bar.from, bar.to))
    .map((bar) => box(bar, x, y + 12, 6))
  const held = bars.filter((bar) => bar.kind !== 'waiting' && seen(bar.from, bar.to))
  const begins = bars.map((bar) => x(bar.from)).sort((a, b) => a - b)
  const holds = held.map((bar) =>
    holdBox(bar, x, y, begins.find((begin) => begin >= x(bar.to)) ?? width - right),
  )
  const faults = marks
    .filter((mark) => seen(mark.at, mark.to ?? mark.at))
    .map((mark) => faultMark(mark, x, y))
  const text = label.length > 26 ? `${label.slice(0, 25)}…` : label
  return `<g><text x="24" y="${y + 19}">${escaped(text)}</text>${[...waits, ...holds, ...faults].join('')}</g>`
}

function box(bar: Bar, x: Frame['x'], y: number, height: number): string {
  const width = round(Math.max(1.5, x(bar.to) - x(bar.from)))
  return `<rect class="${cssClass(bar.kind)}" x="${x(bar.from)}" y="${y}" width="${width}" height="${height}" rx="${Math.min(3, width / 2)}"><title>${escaped(bar.detail)}</title></rect>`
}

/** @param free where the next bar of the row begins: a token that does not fit into its bar is drawn beside it */
function holdBox(bar: Bar, x: Frame['x'], y: number, free: number): string {
  const parts = [box(bar, x, y + 5, 20)]
  const middle = round((x(bar.from) + x(bar.to)) / 2)
  const fits = x(bar.to) - x(bar.from) > bar.text.length * 7 + 6
  if (fits && bar.text !== '')
    parts.push(`<text class="token" x="${middle}" y="${y + 19}">${escaped(bar.text)}</text>`)
  else if (bar.text !== '' && free - x(bar.to) > bar.text.length * 7 + 8)
    parts.push(`<text class="beside" x="${x(bar.to) + 5}" y="${y + 19}">${escaped(bar.text)}</text>`)
  const end = x(bar.to)
  if (bar.end === 'lost')
    parts.push(`<line class="lost" x1="${end}" x2="${end}" y1="${y + 2}" y2="${y + 28}"/>`)
  if (bar.end === 'killed') parts.push(`<path class="killed" d="M${end - 4} ${y + 11}l8 8m0 -8l-8 8"/>`)
  return parts.join('')
}

function faultMark(mark: Mark, x: Frame['x'], y: number): string {
  const begin = x(mark.at)
  const lasted = mark.to === undefined ? '' : ` for ${milliseconds(mark.to - mark.at)}`
  const during =
    mark.to === undefined
      ? ''
      : `<rect class="during" x="${begin}" y="${y}" width="${round(x(mark.to) - begin)}" height="${rowHeight}"/>`
  return `${during}<path class="fault" d="M${begin} ${y + 8}l-5 -8h10z"><title>${escaped(mark.text + lasted)}</title></path>`
}

function describeRows({ timeline, x, top, bottom, width }: Frame, mark: Mark): string {
  const begin = x(mark.at)
  const isQuarantine = mark.text === quarantine
  const during =
    mark.to === undefined
      ? ''
      : `<rect class="${isQuarantine ? 'quarantine' : 'during'}" x="${begin}" y="${top}" width="${round(x(mark.to) - begin)}" height="${bottom - top}"/>`
  const y = top - (timeline.bands.length > 0 ? 24 : 8)
  if (isQuarantine) {
    const middle = round((begin + x(mark.to ?? timeline.to)) / 2)
    return `${during}<text class="small" x="${middle}" y="${y}" text-anchor="middle">quarantine: the store grants nothing</text>`
  }
  const anchor = begin > width - 120 ? 'end' : 'start'
  return `${during}<line class="everybody" x1="${begin}" x2="${begin}" y1="${top - 6}" y2="${bottom}"/><text class="small" x="${begin}" y="${y}" text-anchor="${anchor}">${escaped(mark.text)}</text>`
}

function legend({ timeline, left, bottom }: Frame): string[] {
  const bars = timeline.rows.flatMap((row) => row.bars)
  const all = [...timeline.marks, ...timeline.rows.flatMap((row) => row.marks)]
  const y = bottom + 46
  const swatch = (kind: string) => (x: number) =>
    `<rect class="${kind}" x="${x}" y="${kind === 'waiting' ? y - 7 : y - 11}" width="18" height="${kind === 'waiting' ? 6 : 14}" rx="3"/>`
  const items: [text: string, draw: (x: number) => string][] = [['waits', swatch('waiting')]]
  for (const [kind, text] of [
    ['exclusive', 'holds (token)'],
    ['shared', 'shared'],
    ['permits', 'permits'],
  ] as const) {
    if (bars.some((bar) => bar.kind === kind)) items.push([text, swatch(kind)])
  }
  const ends = new Set(bars.filter((bar) => bar.kind !== 'waiting').map((bar) => bar.end))
  if (ends.has('lost'))
    items.push([
      'lost',
      (x) => `<line class="lost" x1="${x + 9}" x2="${x + 9}" y1="${y - 13}" y2="${y + 3}"/>`,
    ])
  if (ends.has('killed'))
    items.push(['killed', (x) => `<path class="killed" d="M${x + 5} ${y - 8}l8 8m0 -8l-8 8"/>`])
  if (all.some(({ text }) => text !== quarantine))
    items.push(['fault', (x) => `<path class="fault" d="M${x + 9} ${y - 1}l-5 -8h10z"/>`])
  if (all.some(({ text }) => text === quarantine)) items.push(['quarantine', swatch('quarantine')])
  if (timeline.bands.length > 0) items.push(['violation', swatch('bad')])
  let at = left
  const drawn = items.map(([text, draw]) => {
    const item = `${draw(at)}<text class="small" x="${at + 24}" y="${y}">${text}</text>`
    at += 24 + text.length * 6.5 + 22
    return item
  })
  const { note } = timeline
  return note === undefined
    ? drawn
    : [...drawn, `<text class="small" x="${left}" y="${y + 24}">${escaped(note)}</text>`]
}

/** The kinds with a style. A history comes from a file, which anybody may have written. */
const classes: ReadonlySet<string> = new Set<Bar['kind']>(['waiting', 'exclusive', 'shared', 'permits'])

function cssClass(kind: string): string {
  return classes.has(kind) ? kind : 'exclusive'
}

function escaped(text: unknown): string {
  const entities: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }
  // XML cannot represent most control characters, not even escaped; direction characters would mislead the reader.
  return String(text)
    .replace(/[&<>"]/g, (char) => entities[char] ?? char)
    .replace(/[\p{Cc}\p{Cf}]/gu, '�')
}
