/** A timeline for a terminal. Characters show everything; colour only repeats it. */
import { type Bar, type Mark, milliseconds, type Row, type Timeline, ticks } from './timeline.js'

export interface TextOptions {
  /** Columns. @default 100 */
  readonly width?: number
  /** ANSI colours. @default false */
  readonly color?: boolean
  /** Maximum number of faults and violations listed below the picture. @default 10 */
  readonly footnotes?: number
}

type Style = 'plain' | 'dim' | 'held' | 'inside' | 'bad' | 'mark'
type Cell = [char: string, style: Style]

const codes: Record<Style, string> = {
  plain: '',
  dim: '\x1b[2m',
  held: '\x1b[36m',
  inside: '\x1b[30;46m',
  bad: '\x1b[1;97;41m',
  mark: '\x1b[1;33m',
}
const fill = { waiting: '░', exclusive: '█', shared: '▓', permits: '▒' } as const

export function renderText(timeline: Timeline, options: TextOptions = {}): string {
  const { width = 100, color = false, footnotes = 10 } = options
  const labels = Math.min(24, Math.max(6, ...timeline.rows.map((row) => row.label.length)))
  const columns = Math.max(20, width - labels - 3)
  const at = (t: number) => Math.floor(((t - timeline.from) / (timeline.to - timeline.from)) * columns)
  const paint = (cells: readonly Cell[]) => painted(cells, color)
  const lines = [timeline.title, '']
  for (const [i, row] of timeline.rows.entries()) {
    lines.push(`${clip(row.label, labels)} │${paint(rowCells(row, i, timeline, columns, at))}`)
  }
  if (timeline.marks.length > 0) {
    const cells = blank(columns)
    for (const mark of timeline.marks) putMark(cells, mark, at)
    lines.push(`${clip('faults', labels)} │${paint(cells)}`)
  }
  lines.push(...axis(timeline, labels, columns, at), '', legend(timeline))
  if (timeline.note !== undefined) lines.push(timeline.note)
  lines.push(...notes(timeline, footnotes))
  return lines.map((line) => line.trimEnd()).join('\n')
}

const blank = (columns: number): Cell[] => Array.from({ length: columns }, () => [' ', 'plain'])

function rowCells(
  row: Row,
  index: number,
  timeline: Timeline,
  columns: number,
  at: (t: number) => number,
): Cell[] {
  const cells = blank(columns)
  const waits = row.bars.filter((bar) => bar.kind === 'waiting')
  for (const bar of waits) putBar(cells, bar, at)
  for (const bar of row.bars) if (bar.kind !== 'waiting') putBar(cells, bar, at)
  for (const band of timeline.bands) {
    if (!band.rows.includes(index)) continue
    for (
      let i = Math.max(0, at(band.from));
      i <= Math.min(columns - 1, Math.max(at(band.to) - 1, at(band.from)));
      i++
    ) {
      cells[i] = ['╳', 'bad']
    }
  }
  for (const mark of row.marks) putMark(cells, mark, at)
  return cells
}

function putBar(cells: Cell[], bar: Bar, at: (t: number) => number): void {
  const begin = Math.max(0, at(bar.from))
  const end = Math.min(cells.length, Math.max(at(bar.to), begin + 1))
  if (at(bar.to) < 0 || begin >= cells.length) return
  const style = bar.kind === 'waiting' ? 'dim' : 'held'
  for (let i = begin; i < end; i++) cells[i] = [fill[bar.kind], style]
  const length = end - begin
  // A half block separates two consecutive holds.
  if (bar.kind !== 'waiting' && length > 2) cells[begin] = ['▐', style]
  if (length >= bar.text.length + 2) {
    const start = begin + Math.floor((length - bar.text.length + 1) / 2)
    for (const [i, char] of [...bar.text].entries()) cells[start + i] = [char, 'inside']
  }
  if (bar.kind !== 'waiting' && bar.end === 'lost') cells[end - 1] = ['!', 'mark']
}

function putMark(cells: Cell[], mark: Mark, at: (t: number) => number): void {
  const column = at(mark.at)
  if (column < 0 || column >= cells.length) return
  const last = Math.min(cells.length - 1, at(mark.to ?? mark.at))
  for (let i = column + 1; i <= last; i++) if (cells[i]?.[0] === ' ') cells[i] = ['·', 'mark']
  cells[column] = [mark.text === 'kill' ? '✝' : '▼', 'mark']
}

function axis({ from, to }: Timeline, labels: number, columns: number, at: (t: number) => number): string[] {
  const line = Array.from({ length: columns }, () => '─')
  let texts = ''
  for (const tick of ticks(from, to, columns / 14)) {
    const column = at(tick.at)
    if (column >= columns) continue
    line[column] = '┬'
    const start = Math.min(column, columns - tick.text.length)
    if (start >= texts.length) texts = texts.padEnd(start) + tick.text
  }
  return [`${''.padEnd(labels)} └${line.join('')}`, `${''.padEnd(labels + 2)}${texts}`]
}

function legend({ rows, marks, bands }: Timeline): string {
  const bars = rows.flatMap((row) => row.bars)
  const all = [...marks, ...rows.flatMap((row) => row.marks)]
  const parts = ['░ waits', '█ holds, with its token']
  if (bars.some((bar) => bar.kind === 'shared')) parts.push('▓ shared')
  if (bars.some((bar) => bar.kind === 'permits')) parts.push('▒ permits')
  if (bars.some((bar) => bar.kind !== 'waiting' && bar.end === 'lost')) parts.push('! lost')
  if (all.some((mark) => mark.text !== 'kill')) parts.push('▼ fault')
  if (all.some((mark) => mark.text === 'kill')) parts.push('✝ killed')
  if (bands.length > 0) parts.push('╳ violation')
  return parts.join('   ')
}

function notes({ rows, marks, bands, from, to }: Timeline, most: number): string[] {
  const at = (t: number) => `at ${milliseconds(t - from)}`.padStart(12)
  const lasted = (mark: Mark) => (mark.to === undefined ? '' : ` for ${milliseconds(mark.to - mark.at)}`)
  const seen = (t: number) => t >= from && t <= to
  const faults = [
    ...marks,
    ...rows.flatMap((row) => row.marks.map((mark) => ({ ...mark, text: `${mark.text} ${row.label}` }))),
  ]
    .filter((mark) => seen(mark.at))
    .sort((a, b) => a.at - b.at)
    .map((mark) => `${mark.text.startsWith('kill') ? '✝' : '▼'} ${at(mark.at)}  ${mark.text}${lasted(mark)}`)
  const wrong = bands.filter((band) => seen(band.from)).map((band) => `╳ ${at(band.from)}  ${band.text}`)
  const cut = (lines: string[], what: string) =>
    lines.length <= most ? lines : [...lines.slice(0, most), `  … and ${lines.length - most} more ${what}`]
  return [...cut(faults, 'faults'), ...cut(wrong, 'violations')]
}

function painted(cells: readonly Cell[], color: boolean): string {
  if (!color) return cells.map(([char]) => char).join('')
  let text = ''
  let style: Style = 'plain'
  for (const [char, next] of cells) {
    if (next !== style) text += (style === 'plain' ? '' : '\x1b[0m') + codes[next]
    text += char
    style = next
  }
  return style === 'plain' ? text : `${text}\x1b[0m`
}

const clip = (text: string, length: number) =>
  text.length > length ? `${text.slice(0, length - 1)}…` : text.padEnd(length)
