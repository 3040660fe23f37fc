/** Figures as Markdown to read and as JSON to compare. */
import type { Comparison, Figure, Result } from './figure.js'
import type { Machine } from './machine.js'
import type { Spread } from './spread.js'

export interface Report {
  readonly machine: Machine
  readonly results: readonly Result[]
}

const head = ['figure', 'unit', 'holdfast', 'floor', 'of floor', 'counts', 'aim', 'met']

export function markdown({ machine, results }: Report): string {
  const suites = [...new Set(results.map(({ suite }) => suite))]
  const parts = suites.map((suite) => {
    const own = results.filter((result) => result.suite === suite)
    const figures = own.filter((result): result is Figure => !('columns' in result))
    const lines = [`### ${suite}`, '']
    if (figures.length > 0) lines.push(...table([head, ...figures.map(cells)]), ...notes(figures), '')
    for (const result of own) if ('columns' in result) lines.push(...compared(result), '')
    return lines.join('\n')
  })
  return `${[machineLine(machine), '', ...parts].join('\n').trimEnd()}\n`
}

export function json(report: Report): string {
  return `${JSON.stringify(report, undefined, 2)}\n`
}

function cells({ what, unit, ours, floor, counts, aim }: Figure): string[] {
  return [
    what,
    unit,
    range(ours),
    floor === undefined ? '' : `${range(floor.value)} ${floor.what}`,
    floor === undefined ? '' : `${range(floor.ratio)}`,
    Object.entries(counts ?? {})
      .map(([name, count]) => `${number(count)} ${name}`)
      .join(', '),
    aim?.text ?? '',
    aim === undefined ? '' : aim.met ? 'yes' : '**no**',
  ]
}

function compared({ what, columns, rows, note }: Comparison): string[] {
  const lines = rows.map(({ library, settings, values }) => [
    library,
    settings,
    ...values.map((value) => (value === undefined ? '' : range(value))),
  ])
  const under = note === undefined ? [] : ['', note]
  return [`**${what}**`, '', ...table([['library', 'settings', ...columns], ...lines]), ...under]
}

function notes(figures: readonly Figure[]): string[] {
  const lines = figures.flatMap(({ what, note }) => (note === undefined ? [] : [`- ${what}: ${note}`]))
  return lines.length === 0 ? [] : ['', ...lines]
}

function machineLine({ date, runtime, system, processor, cores, load, versions }: Machine): string {
  const others = Object.entries(versions).map(([name, version]) => `${name} ${version}`)
  return [
    `${date}. ${[runtime, ...others].join(', ')}.`,
    `${system}, ${cores} × ${processor}, load ${load}.`,
  ].join(' ')
}

function table(rows: readonly (readonly string[])[]): string[] {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  const [first = [], ...rest] = rows
  return [line(first), line(first.map(() => '---')), ...rest.map(line)]
}

/** `median (least–most)`; a single number if there was one run, or all were equal. */
function range({ median, min, max }: Spread): string {
  return min === max ? number(median) : `${number(median)} (${number(min)}–${number(max)})`
}

/** Three significant digits; whole numbers stay whole. */
export function number(value: number): string {
  if (Number.isInteger(value) || Math.abs(value) >= 100) return Math.round(value).toLocaleString('en')
  return Number(value.toPrecision(3)).toString()
}
