/** The table driver × promise, as Markdown. */
import { type PromiseCell, type PromiseColumn, promises } from './column.js'

/**
 * The columns side by side, and below them a reason for each `in part` and `no`.
 * @param own further remarks on a column, by the id of the reason: `line`, `fair`, `cells`, …
 */
export function promiseTable(
  columns: readonly PromiseColumn[],
  own: Readonly<Record<string, Readonly<Record<string, string>>>> = {},
): string {
  const reasons = new Map<string, { readonly id: string; readonly columns: string[] }>()
  for (const promise of promises)
    for (const { name, cells } of columns)
      for (const { id, because } of cellOf(cells, promise)?.because ?? []) {
        const reason = reasons.get(because) ?? { id, columns: [] }
        reason.columns.push(name)
        reasons.set(because, reason)
      }
  const letters = new Map([...reasons.keys()].map((because, i) => [because, letter(i)]))
  const rows = [
    ['', ...columns.map(({ name }) => name)],
    ['---', ...columns.map(() => '---')],
    ...promises.map((promise) => [
      promise,
      ...columns.map(({ cells }) => formatCell(cellOf(cells, promise), letters)),
    ]),
  ]
  const notes = [...reasons].map(([because, { id, columns }]) => {
    const more = columns
      .flatMap((name) => own[id]?.[name] ?? [])
      .filter((one, i, all) => all.indexOf(one) === i)
    return [`- **${letters.get(because)}** ${because}`, ...more].join(' ')
  })
  return [...rows.map((cells) => `| ${cells.join(' | ')} |`), '', ...notes].join('\n').trimEnd()
}

const cellOf = (cells: readonly PromiseCell[], promise: string) =>
  cells.find((cell) => cell.promise === promise)

function formatCell(cell: PromiseCell | undefined, letters: ReadonlyMap<string, string>): string {
  if (cell === undefined) return ''
  const marks = cell.because.map(({ because }) => letters.get(because) ?? '')
  return marks.length === 0 ? cell.is : `${cell.is} (${marks.join(', ')})`
}

/** a, b, … z, aa, … */
function letter(i: number): string {
  const last = String.fromCharCode(97 + (i % 26))
  return i < 26 ? last : `${letter(Math.floor(i / 26) - 1)}${last}`
}
