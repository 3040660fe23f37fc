/** Output for people: tables, and text that cannot take over a terminal. `--json` prints data instead. */
import type { Holder, Mode, Waiter } from 'holdfast'
import { formatDuration } from './duration.js'

/** Control characters written out: what another process chose as a note must not move the cursor here. */
export function plain(text: string): string {
  return text.replace(
    /[\p{Cc}\p{Cf}\u2028\u2029]/gu,
    (char) => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`,
  )
}

/** `exclusive`, `shared`, `2 of 5`. */
export function modeText(mode: Mode): string {
  return mode.kind === 'permits' ? `${mode.take} of ${mode.of}` : mode.kind
}

/** One line of JSON. Infinity, which JSON lacks, becomes null: there is no such limit. */
export function json(value: unknown): string {
  return JSON.stringify(value, (_key, item) => (item === Number.POSITIVE_INFINITY ? null : item))
}

/** Rows under headings, without a frame, aligned; empty columns are left out. */
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
  const { mode, by = '?', heldFor, expiresIn, token, note = '' } = holder
  const letsGo =
    expiresIn === Number.POSITIVE_INFINITY
      ? 'when it ends'
      : expiresIn <= 0
        ? 'overdue'
        : formatDuration(expiresIn)
  return [modeText(mode), plain(by), formatDuration(heldFor), letsGo, `${token}`, plain(note)]
}

export function waiterCells({ mode, by = '?', waitedFor, note = '' }: Waiter, index: number): string[] {
  return [`${index + 1}`, modeText(mode), plain(by), formatDuration(waitedFor), plain(note)]
}
