/** Figures as Markdown to read and as JSON to compare. */
import type { Figure } from './figure.js'
import type { Machine } from './machine.js'
import type { Spread } from './spread.js'

export interface Report {
  readonly machine: Machine
  readonly figures: readonly Figure[]
}

const head = ['figure', 'unit', 'holdfast', 'floor', 'of floor', 'counts', 'aim', 'met']

export function markdown({ machine, figures }: Report): string {
  const suites = [...new Set(figures.map(({ suite }) => suite))]
  const tables = suites.map((suite) => {
    const own = figures.filter((figure) => figure.suite === suite)
    return [`### ${suite}`, '', ...table([head, ...own.map(cells)]), ...notes(own), ''].join('\n')
  })
  return `${[machineLine(machine), '', ...tables].join('\n').trimEnd()}\n`
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

/** `median (least–most)`; a single number when there was one run, or all were the same. */
function range({ median, min, max }: Spread): string {
  return min === max ? number(median) : `${number(median)} (${number(min)}–${number(max)})`
}

/** Three digits that count; whole numbers whole. */
export function number(value: number): string {
  if (Number.isInteger(value) || Math.abs(value) >= 100) return Math.round(value).toLocaleString('en')
  return Number(value.toPrecision(3)).toString()
}
