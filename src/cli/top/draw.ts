/**
 * Draws one screen: a pure function from what is known to lines of text. Names, notes and processes are data from
 * others: every control character in them is escaped before it gets here, and lines are cut to the width.
 * Long because what the screen shows is read in one piece.
 */

import { formatDuration } from '../duration.js'
import { brief, modeText, plain } from '../print.js'
import { type Row, totals } from './model.js'
import type { State } from './state.js'

export interface Screen {
  readonly columns: number
  readonly lines: number
  /** Escape sequences for bold, inverse and dim type. */
  readonly style: boolean
}

export interface View {
  /** Where from, as shown to people. */
  readonly store: string
  /** As chosen and in order. */
  readonly rows: readonly Row[]
  readonly all: readonly Row[]
  readonly state: State
  /** How long the newest list took, in ms; undefined for the first one. */
  readonly took: number | undefined
  /** How old it is, in ms. */
  readonly age: number
  /** Time from one list to the next, in ms. */
  readonly every: number
  /** Why there is no newer list. */
  readonly error: string | undefined
}

type Align = 'left' | 'right'
interface Column {
  readonly title: string
  /** In characters. */
  readonly width: number
  readonly align: Align
  readonly cell: (row: Row) => string
}

/** Lines that are not rows: title, totals, headings, bottom. */
const frame = 4

/** How many rows fit. */
export function pageSize(screen: Screen): number {
  return Math.max(1, screen.lines - frame)
}

export function draw(displayed: View, screen: Screen): string[] {
  const { state } = displayed
  const body = { list, one, help }[state.view](displayed, screen)
  const lines = [title(displayed), summary(displayed), ...body].slice(0, screen.lines - 1)
  while (lines.length < screen.lines - 1) lines.push(plainLine(''))
  return [...lines, bottom(displayed)].map((line) => finished(line, screen))
}

interface Line {
  readonly text: string
  readonly look: 'plain' | 'bold' | 'inverse' | 'dim'
}
const plainLine = (text: string): Line => ({ text, look: 'plain' })

/** Cut or filled to the width; the style goes around it, so that no sequence is cut. */
function finished({ text, look }: Line, { columns, style }: Screen): string {
  const fitted = fit(text, columns, 'left')
  const codes = { plain: undefined, bold: 1, inverse: 7, dim: 2 }
  const code = codes[look]
  return style && code !== undefined ? `\x1b[${code}m${fitted}\x1b[0m` : fitted.trimEnd()
}

function title({ store, state, age, every }: View): Line {
  const when = state.paused ? `PAUSED, ${formatDuration(age)} old` : `every ${formatDuration(every)}`
  return { text: `holdfast top  ${plain(store)}  ${when}`, look: 'bold' }
}

function summary({ all, rows, took, state, error }: View): Line {
  if (error !== undefined) return { text: plain(error), look: 'inverse' }
  const { names, held, waiting } = totals(all)
  const filter = state.filter === '' ? '' : `  filter "${plain(state.filter)}": ${rows.length}`
  const listed = took === undefined ? '' : `  listed in ${formatDuration(Math.max(1, took))}`
  return plainLine(
    `${names} ${names === 1 ? 'name' : 'names'}  ${held} held  ${waiting} waiting${listed}${filter}`,
  )
}

function columnsFor(width: number): Column[] {
  const fixed: Column[] = [
    { title: 'WAIT', width: 5, align: 'right', cell: ({ waiting }) => `${waiting}` },
    {
      title: 'HELD',
      width: 9,
      align: 'right',
      cell: ({ heldFor }) => (heldFor === undefined ? 'free' : formatDuration(heldFor)),
    },
    {
      title: 'GRANTS/S',
      width: 8,
      align: 'right',
      cell: ({ rate }) => (rate === 0 ? '' : `≥${rate.toFixed(1)}`),
    },
    {
      title: 'HELD BY',
      width: Math.min(24, Math.floor(width / 4)),
      align: 'left',
      cell: ({ holders }) =>
        holders.length > 1
          ? `${holders.length} holders`
          : brief(holders[0]?.client ?? (holders.length === 1 ? '?' : '')),
    },
  ]
  const used = fixed.reduce((sum, one) => sum + one.width + 1, 0)
  const left = Math.max(12, width - used)
  const note = width < 60 ? 0 : Math.floor(left / 3)
  const shortNote = ({ holders }: Row) => brief(holders[0]?.note ?? '')
  return [
    {
      title: 'NAME',
      width: left - (note > 0 ? note + 1 : 0),
      align: 'left',
      cell: ({ name }) => plain(name),
    },
    ...fixed,
    ...(note > 0 ? [{ title: 'NOTE', width: note, align: 'left' as const, cell: shortNote }] : []),
  ]
}

function list(displayed: View, screen: Screen): Line[] {
  const columns = columnsFor(screen.columns)
  const { rows, state } = displayed
  const page = pageSize(screen)
  const at = Math.max(
    0,
    rows.findIndex(({ name }) => name === state.selected),
  )
  const first = Math.max(0, Math.min(at - Math.floor(page / 2), rows.length - page))
  const sorted = { waiting: 'WAIT', held: 'HELD', rate: 'GRANTS/S', name: 'NAME' }[state.sort]
  const heading = columns.map(({ title, width, align }) =>
    fit(title === sorted ? `${title}↓` : title, width, align),
  )
  const drawn = rows.slice(first, first + page).map((row, i): Line => {
    const text = columns.map(({ width, align, cell }) => fit(cell(row), width, align)).join(' ')
    return { text, look: first + i === at ? 'inverse' : 'plain' }
  })
  if (rows.length === 0) drawn.push({ text: 'nothing is held or waited for', look: 'dim' })
  return [{ text: heading.join(' '), look: 'bold' }, ...drawn]
}

/** Holders and waiters of one name. */
function one(displayed: View, screen: Screen): Line[] {
  const { state, all } = displayed
  const row = all.find(({ name }) => name === state.selected)
  const name = plain(state.selected ?? '')
  if (row === undefined) return [{ text: `"${name}" is free, and nobody waits for it`, look: 'bold' }]
  const holders = row.holders.flatMap(({ mode, client = '?', heldFor, expiresIn, token, note = '' }) => {
    const ends =
      expiresIn === Number.POSITIVE_INFINITY
        ? 'no end'
        : expiresIn <= 0
          ? 'overdue'
          : formatDuration(expiresIn)
    return [
      entry('held', modeText(mode), heldFor, ends, client, note),
      { text: `${' '.repeat(10)}token ${token}`, look: 'dim' } satisfies Line,
    ]
  })
  const waiters = row.waiters.map(({ mode, client = '?', waitedFor, note = '' }, i) =>
    entry(`${i + 1}.`, modeText(mode), waitedFor, '', client, note),
  )
  const unlisted = row.waiting - row.waiters.length
  const more = unlisted > 0 ? [plainLine(`  and ${unlisted} more`)] : []
  const lines = [...holders, ...waiters, ...more]
  const from = Math.min(state.scroll, Math.max(0, lines.length - pageSize(screen) + 1))
  return [
    { text: `"${name}"`, look: 'bold' },
    { ...heading('', 'MODE', 'SINCE', 'ENDS IN', 'WHO', 'NOTE'), look: 'dim' },
    ...lines.slice(from),
  ]
}

/** One line about a holder or waiter. */
function heading(address: string, mode: string, since: string, ends: string, by: string, note: string): Line {
  const times = `${fit(since, 9, 'right')} ${fit(ends, 9, 'right')}`
  return plainLine(
    `  ${fit(address, 7, 'left')} ${fit(mode, 9, 'left')} ${times}  ${fit(by, 20, 'left')} ${note}`,
  )
}

function entry(address: string, mode: string, since: number, ends: string, by: string, note: string): Line {
  return heading(address, mode, formatDuration(since), ends, brief(by), brief(note))
}

function help(): Line[] {
  return [
    '',
    '  ↑ ↓ j k   choose a name            Enter  look at it: holders, places in the queue',
    '  PgUp PgDn Home End                 Esc    back; clear the filter',
    '  s         sort by the next column  /      filter by name, process or note',
    '  p, space  pause                    r      list again now',
    '  F         force the release of the name, after a question',
    '  q         quit',
    '',
    '  GRANTS/S counts the holders that are new since the list before: at least so many.',
  ].map(plainLine)
}

function bottom({ state }: View): Line {
  if (state.asking === 'filter') return { text: `/${plain(state.filter)}▏`, look: 'inverse' }
  if (state.asking === 'force')
    return {
      text: `Release "${plain(state.selected ?? '')}"? Its holder may still be at work. y: release, any other key: no`,
      look: 'inverse',
    }
  if (state.message !== undefined) return { text: plain(state.message), look: 'inverse' }
  const keys =
    state.view === 'list'
      ? 'Enter look  / filter  s sort  p pause  F force  ? help  q quit'
      : 'Esc back  F force'
  return { text: keys, look: 'dim' }
}

/** Exactly `width` columns: cut with an ellipsis, or filled. */
function fit(text: string, width: number, align: Align): string {
  let used = 0
  let kept = ''
  const cells = [...text].map((char) => [char, charWidth(char)] as const)
  const total = cells.reduce((sum, [, wide]) => sum + wide, 0)
  const room = total > width ? width - 1 : width
  for (const [char, wide] of cells) {
    if (used + wide > room) break
    kept += char
    used += wide
  }
  if (total > width && width > 0) {
    kept += '…'
    used++
  }
  const fill = ' '.repeat(Math.max(0, width - used))
  return align === 'left' ? kept + fill : fill + kept
}

/** East Asian wide characters and pictures take two columns, combining marks none. */
function charWidth(char: string): number {
  const code = char.codePointAt(0) ?? 0
  if (/\p{M}/u.test(char)) return 0
  const wide =
    (code >= 0x1100 && code <= 0x115f) ||
    (code >= 0x2e80 && code <= 0xa4cf) ||
    (code >= 0xac00 && code <= 0xd7a3) ||
    (code >= 0xf900 && code <= 0xfaff) ||
    (code >= 0xfe30 && code <= 0xfe6f) ||
    (code >= 0xff00 && code <= 0xff60) ||
    (code >= 0x1f300 && code <= 0x1faff) ||
    (code >= 0x20000 && code <= 0x3fffd)
  return wide ? 2 : 1
}
