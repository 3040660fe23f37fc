/** Output for people: tables, and text that cannot control a terminal. `--json` prints data instead. */
import type { Holder, Mode, Waiter } from 'holdfast'
import { formatDuration } from './duration.js'

/** Control, direction and line separator characters: those that a terminal or a log interprets. */
const terminalControls = /[\p{Cc}\p{Cf}\u2028\u2029]/gu

/** Escapes control characters: a note chosen by another process must not move the cursor here. */
export function plain(text: string): string {
  return text.replace(terminalControls, (char) => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`)
}

/** Maximum length of a note or process name, in characters; longer ones are cut. */
const longest = 200

/** Text from another process, for one cell or one line. */
export function brief(text: string): string {
  return text.length > longest ? `${plain(text.slice(0, longest))}… (${text.length} characters)` : plain(text)
}

/** Names in a sentence: `"a", "b"`. */
export function quoted(names: readonly string[]): string {
  return names.map((name) => `"${plain(name)}"`).join(', ')
}

/** `exclusive`, `shared`, `2 of 5`. */
export function modeText(mode: Mode): string {
  return mode.kind === 'permits' ? `${mode.take} of ${mode.of}` : mode.kind
}

/**
 * One line of JSON. Infinity, which JSON lacks, becomes null: no limit. JSON leaves C1 controls and direction characters as they are;
 * escaping them keeps the data equal, and a terminal interprets nothing.
 */
export function json(value: unknown): string {
  const text = JSON.stringify(value, (_key, item) => (item === Number.POSITIVE_INFINITY ? null : item))
  const unit = (code: string) => `\\u${code.charCodeAt(0).toString(16).padStart(4, '0')}`
  return text.replace(terminalControls, (char) => char.split('').map(unit).join(''))
}

/** Aligned rows under headings, without a frame; empty columns are left out. */
export async function table(
  headings: readonly string[],
  rows: readonly (readonly string[])[],
): Promise<string> {
  const [{ default: Table }, { default: colors }] = await Promise.all([
    import('cli-table3'),
    import('picocolors'),
  ])
  const kept = headings.flatMap((_, i) => (rows.some((row) => row[i] !== '') ? [i] : []))
  const pick = (cells: readonly string[]) => kept.map((i) => cells[i] ?? '')
  const drawn = new Table({
    head: pick(headings).map((heading) => colors.bold(heading)),
    chars: frameless,
    style: { head: [], border: [], 'padding-left': 0, 'padding-right': 2 },
  })
  drawn.push(...rows.map(pick))
  return drawn
    .toString()
    .split('\n')
    .map((line) => line.trimEnd())
    .join('\n')
}

const frameless = {
  top: '',
  'top-mid': '',
  'top-left': '',
  'top-right': '',
  bottom: '',
  'bottom-mid': '',
  'bottom-left': '',
  'bottom-right': '',
  left: '',
  'left-mid': '',
  mid: '',
  'mid-mid': '',
  right: '',
  'right-mid': '',
  middle: '',
}

export const holderHeadings = ['MODE', 'HELD BY', 'FOR', 'LETS GO IN', 'TOKEN', 'NOTE'] as const

export function holderCells(holder: Holder): string[] {
  const { mode, client = '?', heldFor, expiresIn, token, note = '' } = holder
  const letsGo =
    expiresIn === Number.POSITIVE_INFINITY
      ? 'when it ends'
      : expiresIn <= 0
        ? 'overdue'
        : formatDuration(expiresIn)
  return [modeText(mode), brief(client), formatDuration(heldFor), letsGo, `${token}`, brief(note)]
}

export function waiterCells({ mode, client = '?', waitedFor, note = '' }: Waiter, index: number): string[] {
  return [`${index + 1}`, modeText(mode), brief(client), formatDuration(waitedFor), brief(note)]
}
