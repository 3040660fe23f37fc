/**
 * Draws one screen: a pure function from what is known to lines of text. Names, notes and processes are data from
 * others: every control character in them is escaped before it gets here, and lines are cut to the width.
 * Long because what the screen shows is read in one piece.
 */

import { formatDuration } from '../duration.js'
import { brief, modeText, plain } from '../print.js'
import { type Row, totals } from './model.js'
import { cursorAt, type State } from './state.js'
import { columnsOf, cutTo, fit, wrapped } from './text.js'

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

interface Column {
  readonly title: string
  /** In characters. */
  readonly width: number
  readonly align: 'left' | 'right'
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
  const head = [title(displayed, screen), ...summary(displayed, screen)]
  const foot = bottom(displayed, screen)
  const room = Math.max(1, screen.lines - head.length - foot.length)
  const body = { list, one, help }[state.view](displayed, screen, room)
  const lines = [...head, ...body].slice(0, Math.max(0, screen.lines - foot.length))
  while (lines.length < screen.lines - foot.length) lines.push(plainLine(''))
  return [...lines, ...foot].slice(0, screen.lines).map((line) => finished(line, screen))
}

/** The greatest scroll of the view of one name: its last line is then the last of the screen. */
export function mostScroll(displayed: View, screen: Screen): number {
  if (displayed.state.view !== 'one') return 0
  const head = 1 + summary(displayed, screen).length
  return onePage(displayed, screen, screen.lines - head - bottom(displayed, screen).length).most
}

interface Line {
  readonly text: string
  readonly look: 'plain' | 'bold' | 'inverse' | 'dim'
}
const plainLine = (text: string): Line => ({ text, look: 'plain' })
const inverseLine = (text: string): Line => ({ text, look: 'inverse' })

/** Cut or filled to the width; the style goes around it, so that no sequence is cut. */
function finished({ text, look }: Line, { columns, style }: Screen): string {
  const fitted = fit(text, columns, 'left')
  const codes = { plain: undefined, bold: 1, inverse: 7, dim: 2 }
  const code = codes[look]
  return style && code !== undefined ? `\x1b[${code}m${fitted}\x1b[0m` : fitted.trimEnd()
}

/** The store is what is cut: the end says whether the view is paused. */
function title({ store, state, age, every }: View, { columns }: Screen): Line {
  const when = state.paused ? `PAUSED, ${formatDuration(age)} old` : `every ${formatDuration(every)}`
  const rest = `holdfast top    ${when}`
  return {
    text: `holdfast top  ${cutTo(plain(store), Math.max(8, columns - rest.length))}  ${when}`,
    look: 'bold',
  }
}

function summary({ all, rows, took, age, state, error }: View, { columns, lines }: Screen): Line[] {
  if (error !== undefined) {
    const text = `${plain(error)} (what is shown is ${formatDuration(age)} old; r asks again)`
    return wrapped(text, columns, Math.max(1, Math.floor(lines / 6))).map(inverseLine)
  }
  const { names, held, waiting } = totals(all)
  const filter = state.filter === '' ? '' : `  filter "${plain(state.filter)}": ${rows.length}`
  const listed = took === undefined ? '' : `  listed in ${formatDuration(Math.max(1, took))}`
  return [
    plainLine(
      `${names} ${names === 1 ? 'name' : 'names'}  ${held} held  ${waiting} waiting${listed}${filter}`,
    ),
  ]
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

function list(displayed: View, screen: Screen, room: number): Line[] {
  const columns = columnsFor(screen.columns)
  const { rows, state } = displayed
  const page = Math.max(1, room - 1)
  const at = cursorAt(rows, state.selected)
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
function one(displayed: View, screen: Screen, room: number): Line[] {
  const { head, lines, most } = onePage(displayed, screen, room)
  return [...head, ...lines.slice(Math.min(displayed.state.scroll, most))]
}

interface OnePage {
  readonly head: readonly Line[]
  readonly lines: readonly Line[]
  readonly most: number
}

function onePage({ state, all }: View, { columns }: Screen, room: number): OnePage {
  const row = all.find(({ name }) => name === state.selected)
  const name = `"${plain(state.selected ?? '')}"`
  const whole = row === undefined ? `${name} is free, and nobody waits for it` : name
  const head = wrapped(whole, columns, Math.max(1, Math.floor(room / 2))).map(boldLine)
  if (row === undefined) return { head, lines: [], most: 0 }
  const holders = row.holders.flatMap(({ mode, client = '?', heldFor, expiresIn, token, note = '' }) => {
    const ends =
      expiresIn === Number.POSITIVE_INFINITY
        ? 'no end'
        : expiresIn <= 0
          ? 'overdue'
          : formatDuration(expiresIn)
    const [first, ...more] = entry(columns, 'held', modeText(mode), heldFor, ends, client, note)
    return [first, dimLine(`${indent}token ${token}`), ...more]
  })
  const waiters = row.waiters.flatMap(({ mode, client = '?', waitedFor, note = '' }, i) =>
    entry(columns, `${i + 1}.`, modeText(mode), waitedFor, '', client, note),
  )
  const unlisted = row.waiting - row.waiters.length
  const others = unlisted > 0 ? [plainLine(`  and ${unlisted} more`)] : []
  const lines = [...holders, ...waiters, ...others]
  head.push(dimLine(heading('', 'MODE', 'SINCE', 'ENDS IN', 'WHO', 'NOTE')))
  return { head, lines, most: Math.max(0, lines.length - Math.max(1, room - head.length)) }
}

const boldLine = (text: string): Line => ({ text, look: 'bold' })
const dimLine = (text: string): Line => ({ text, look: 'dim' })
const indent = ' '.repeat(10)

function heading(
  address: string,
  mode: string,
  since: string,
  ends: string,
  by: string,
  note: string,
): string {
  const times = `${fit(since, 9, 'right')} ${fit(ends, 9, 'right')}`
  return `  ${fit(address, 7, 'left')} ${fit(mode, 9, 'left')} ${times}  ${fit(by, 20, 'left')} ${note}`
}

/** About a holder or waiter. A name of a process or a note that does not fit has lines of its own below. */
function entry(
  columns: number,
  address: string,
  mode: string,
  since: number,
  ends: string,
  by: string,
  note: string,
): [Line, ...Line[]] {
  const [who, said] = [brief(by), brief(note)]
  const line = heading(address, mode, formatDuration(since), ends, who, '')
  const fits = columnsOf(line) + columnsOf(said) <= columns
  const own = [columnsOf(who) > 20 ? who : '', fits ? '' : said].filter((text) => text !== '')
  const below = own.flatMap((text) => wrapped(text, Math.max(10, columns - indent.length), 6))
  return [plainLine(fits ? line + said : line), ...below.map((text) => plainLine(indent + text))]
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

function bottom({ state }: View, { columns, lines }: Screen): Line[] {
  if (state.asking === 'filter') return [inverseLine(`/${plain(state.filter)}▏`)]
  if (state.asking === 'force') {
    const name = `Release "${plain(state.selected ?? '')}"?`
    const question = `${name} Its holder may still be at work. ${answers}`
    const most = Math.max(1, Math.floor(lines / 3))
    if (columnsOf(question) <= columns) return [inverseLine(question)]
    // On lines of their own, so that no name is so long that it hides what the keys do.
    return [
      ...wrapped(name, columns, most),
      ...wrapped(`Its holder may still be at work. ${answers}`, columns, 2),
    ].map(inverseLine)
  }
  if (state.message !== undefined)
    return wrapped(plain(state.message), columns, Math.max(1, Math.floor(lines / 6))).map(inverseLine)
  const keys =
    state.view === 'list'
      ? 'Enter look  / filter  s sort  p pause  F force  ? help  q quit'
      : 'Esc back  F force'
  return [dimLine(keys)]
}

const answers = 'y: release, any other key: no'
