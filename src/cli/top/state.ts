/** What the keys do: a pure function from a state and a key to the next state and, at most, one thing to do. */
import { type Row, type Sort, sorts } from './model.js'

export interface State {
  readonly sort: Sort
  readonly filter: string
  /** The name under the cursor; it stays there while rows move. */
  readonly selected: string | undefined
  /** Lists are not fetched, and the screen stays. */
  readonly paused: boolean
  readonly view: 'list' | 'one' | 'help'
  /** Typing a filter, or answering whether to force a release. */
  readonly asking: 'filter' | 'force' | undefined
  /** Attempts of the holders on the screen when the question about a forced release was asked. */
  readonly seen: readonly string[]
  /** One line at the bottom, until the next key. */
  readonly message: string | undefined
  /** First line shown of the holders and waiters of one name. */
  readonly scroll: number
}

/** `seen`: the attempts of the holders it is meant for. */
export type Action = 'quit' | 'refresh' | { readonly force: string; readonly seen: readonly string[] }

export const initial: State = {
  sort: 'waiting',
  filter: '',
  selected: undefined,
  paused: false,
  view: 'list',
  asking: undefined,
  seen: [],
  message: undefined,
  scroll: 0,
}

/** A key as `node:readline` names it. */
export interface Key {
  readonly name?: string | undefined
  readonly ctrl?: boolean
  /** The character typed, if it is one. */
  readonly text?: string | undefined
}

interface Next {
  readonly state: State
  readonly action?: Action
}

/** The row under the cursor: the first one where the selected name is not shown. */
export function cursorAt(rows: readonly Row[], selected: string | undefined): number {
  return Math.max(
    0,
    rows.findIndex(({ name }) => name === selected),
  )
}

/** @param rows as shown, in order @param page how many fit @param end the greatest scroll of the view of one name */
export function press(
  state: State,
  key: Key,
  rows: readonly Row[],
  page: number,
  end: number = Number.POSITIVE_INFINITY,
): Next {
  if (key.ctrl === true && key.name === 'c') return { state, action: 'quit' }
  const quiet = { ...state, message: undefined }
  if (state.asking === 'filter') return { state: typed(quiet, key) }
  if (state.asking === 'force') return answered(quiet, key)
  const to = moves(key, page)
  if (to !== undefined) return { state: moved(quiet, to, rows, end) }
  return command(quiet, key, rows)
}

function typed(state: State, { name, text }: Key): State {
  if (name === 'return' || name === 'enter') return { ...state, asking: undefined }
  if (name === 'escape') return { ...state, asking: undefined, filter: '' }
  if (name === 'backspace') return { ...state, filter: [...state.filter].slice(0, -1).join('') }
  if (text === undefined || /\p{C}/u.test(text)) return state
  return { ...state, filter: `${state.filter}${text}`.slice(0, 100) }
}

/** Only `y` releases; every other key means no. */
function answered(state: State, { text }: Key): Next {
  const done: State = { ...state, asking: undefined }
  if (text !== 'y' || state.selected === undefined)
    return { state: { ...done, message: 'nothing was released' } }
  return { state: done, action: { force: state.selected, seen: state.seen } }
}

function moves({ name, text }: Key, page: number): number | undefined {
  if (name === 'up' || text === 'k') return -1
  if (name === 'down' || text === 'j') return 1
  if (name === 'pageup') return -page
  if (name === 'pagedown') return page
  if (name === 'home' || text === 'g') return Number.NEGATIVE_INFINITY
  if (name === 'end' || text === 'G') return Number.POSITIVE_INFINITY
  return undefined
}

function moved(state: State, by: number, rows: readonly Row[], end: number): State {
  if (state.view === 'one') return { ...state, scroll: Math.max(0, Math.min(end, state.scroll + by)) }
  if (rows.length === 0) return state
  const next = Math.min(rows.length - 1, Math.max(0, cursorAt(rows, state.selected) + by))
  return { ...state, selected: rows[next]?.name }
}

function command(state: State, { name, text }: Key, rows: readonly Row[]): Next {
  // In the list it is the row that is marked, also when the name chosen before was filtered out or is gone.
  const selected = state.view === 'one' ? state.selected : rows[cursorAt(rows, state.selected)]?.name
  if (name === 'escape' || (text === 'q' && state.view !== 'list'))
    return { state: state.view === 'list' ? { ...state, filter: '' } : { ...state, view: 'list' } }
  switch (text) {
    case 'q':
      return { state, action: 'quit' }
    case 'p':
    case ' ':
      return { state: { ...state, paused: !state.paused } }
    case 'r':
      return { state, action: 'refresh' }
    case 's':
      return { state: { ...state, sort: sorts[(sorts.indexOf(state.sort) + 1) % sorts.length] ?? 'waiting' } }
    case '/':
      return { state: { ...state, asking: 'filter', view: 'list' } }
    case '?':
    case 'h':
      return { state: { ...state, view: 'help' } }
    case 'F': {
      const row = rows.find((one) => one.name === selected)
      if (row === undefined) return { state: { ...state, message: 'there is nothing to release' } }
      const seen = row.holders.map(({ attempt }) => attempt)
      return { state: { ...state, selected: row.name, asking: 'force', seen } }
    }
  }
  if ((name === 'return' || name === 'enter') && selected !== undefined)
    return { state: { ...state, selected, view: 'one', scroll: 0 } }
  return { state }
}
